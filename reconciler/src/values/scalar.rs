//! What an unquoted word of YAML means to helm: YAML 1.1, as the Go library reads it that
//! helm, kubectl and helm-operator use.

use serde_json::{Number, Value};

/// A scalar: what it is as a value, and as a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Big(u64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// The value; `None` for what JSON has no number for.
    pub(super) fn value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Int(number) => number.into(),
            Self::Big(number) => number.into(),
            Self::Float(number) => Value::Number(Number::from_f64(number)?),
            Self::Text(text) => Value::String(text),
        })
    }

    /// The key; `None` for what can't be one.
    pub(super) fn key(self) -> Option<String> {
        match self {
            Self::Null | Self::Big(_) => None,
            Self::Bool(flag) => Some(flag.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Float(number) => Some(float_key(number)),
            Self::Text(text) => Some(text),
        }
    }
}

/// What a plain word is.
pub(super) fn resolve(word: &str) -> Scalar {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    number(word).unwrap_or_else(|| Scalar::Text(word.to_owned()))
}

fn number(word: &str) -> Option<Scalar> {
    match word.bytes().next()? {
        b'.' => float(word),
        b'+' | b'-' | b'0'..=b'9' => {
            let plain = word.replace('_', "");
            integer(&plain).or_else(|| float(&plain))
        }
        _ => None,
    }
}

fn integer(plain: &str) -> Option<Scalar> {
    let (negative, unsigned) = match plain.as_bytes().first()? {
        b'-' => (true, plain.get(1..)?),
        b'+' => (false, plain.get(1..)?),
        _ => (false, plain),
    };
    let signed = unsigned.len() != plain.len();
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, unsigned.get(2..)?),
        [b'0', b'b' | b'B', _, ..] => (2, unsigned.get(2..)?),
        [b'0', b'o' | b'O', _, ..] => (8, unsigned.get(2..)?),
        [b'0', _, ..] => (8, unsigned.get(1..)?),
        _ => (10, unsigned),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let number = if negative { -magnitude } else { magnitude };
    if let Ok(number) = i64::try_from(number) {
        return Some(Scalar::Int(number));
    }
    if signed {
        None
    } else {
        u64::try_from(number).ok().map(Scalar::Big)
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, and finite.
fn float(plain: &str) -> Option<Scalar> {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_well_formed = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let number: f64 = (well_formed && exponent_well_formed).then(|| plain.parse().ok())??;
    number.is_finite().then_some(Scalar::Float(number))
}

/// A float as a key, in the shortest form of single precision that Go prints.
fn float_key(number: f64) -> String {
    if number.is_nan() {
        return ".nan".to_owned();
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the key is that of single precision"
    )]
    let single = number as f32;
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{single:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Go prints plainly what has at most six digits before its point.
    if (-4..6).contains(&exponent) {
        format!("{single}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}
