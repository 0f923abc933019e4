//! Charts for the tests, as lists of paths and contents.

/// The files of one chart.
pub type Files = Vec<(String, String)>;

/// The template of [`config_map`]: a marker and all values as helm saw them.
const CONFIG_MAP: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  marker: MARKER
  values: {{ .Values | toJson | quote }}
"#;

const DEPLOYMENT: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: {app: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations: {marker: {{ .Values.marker | quote }}}
    spec:
      serviceAccountName: {{ .Release.Name }}
      containers:
        - name: app
          image: {{ .Values.image | quote }}
          ports: [{containerPort: 8080}]
"#;

const SERVICE: &str = r#"apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{port: 80, targetPort: 8080}]
"#;

const SERVICE_ACCOUNT: &str =
    "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {{ .Release.Name }}\n";

/// `Chart.yaml`.
pub fn metadata(name: &str, version: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: {version}\n")
}

/// A chart in the folder `path` with one ConfigMap that is named after the
/// release and holds `marker` and the values.
pub fn config_map(path: &str, marker: &str) -> Files {
    let name = path.rsplit('/').next().unwrap_or(path);
    vec![
        (format!("{path}/Chart.yaml"), metadata(name, "0.1.0")),
        (format!("{path}/values.yaml"), "default: kept\n".to_owned()),
        (
            format!("{path}/templates/cm.yaml"),
            CONFIG_MAP.replace("MARKER", marker),
        ),
    ]
}

/// A chart of the usual shape: Deployment, Service, ServiceAccount, ConfigMap.
pub fn application(path: &str, marker: &str) -> Files {
    let mut files = config_map(path, marker);
    files.retain(|(file, _)| !file.ends_with("values.yaml"));
    files.extend([
        (
            format!("{path}/values.yaml"),
            format!("replicas: 1\nimage: registry.example/app:1\nmarker: {marker}\n"),
        ),
        (
            format!("{path}/templates/deployment.yaml"),
            DEPLOYMENT.to_owned(),
        ),
        (format!("{path}/templates/service.yaml"), SERVICE.to_owned()),
        (
            format!("{path}/templates/serviceaccount.yaml"),
            SERVICE_ACCOUNT.to_owned(),
        ),
    ]);
    files
}

/// A template that can't be rendered.
pub fn broken_template() -> &'static str {
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ required \"a name is needed\" .Values.never }}}\n"
}

/// A hook Job; without nodes it never ends by itself.
pub fn hook(name: &str, when: &str, extra: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{{{ .Release.Name }}}}-{name}\n  annotations:\n    \
         helm.sh/hook: {when}\n    helm.sh/hook-delete-policy: before-hook-creation\nspec:\n  backoffLimit: 0\n{extra}  template:\n    \
         spec:\n      restartPolicy: Never\n      containers:\n        - name: hook\n          image: registry.example/hook:1\n"
    )
}

/// So many bytes that nothing can compress, the same in every run.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
