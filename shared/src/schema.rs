//! The JSON Schemas of the contract, generated from its types.

use schemars::{JsonSchema, Schema, schema_for};

use crate::decision::Decision;
use crate::manifest::Manifest;
use crate::request::Request;
use crate::version::{Contract, Document};

/// Every schema, as file name (`request.schema.json`) and content.
#[must_use]
pub fn all() -> Vec<(String, serde_json::Value)> {
    vec![
        one::<Contract>(),
        one::<Request>(),
        one::<Manifest>(),
        one::<Decision>(),
    ]
}

fn one<T: JsonSchema + Document>() -> (String, serde_json::Value) {
    let mut schema: Schema = schema_for!(T);
    // The version that a file names is part of what is promised.
    if let Some(property) = schema.pointer_mut("/properties/schema") {
        *property = serde_json::json!({"description": "Which file this is, and its version.", "const": T::current_schema()});
    }
    (format!("{}.schema.json", T::KIND), schema.into())
}
