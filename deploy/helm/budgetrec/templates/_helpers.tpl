{{/* The name of everything in a release: the release's own, unless it says budgetrec already. */}}
{{- define "budgetrec.name" -}}
{{- if contains "budgetrec" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-budgetrec" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "budgetrec.selector" -}}
app.kubernetes.io/name: budgetrec
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "budgetrec.labels" -}}
{{ include "budgetrec.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "budgetrec.claim" -}}
{{- .Values.model.existingClaim | default (printf "%s-models" (include "budgetrec.name" .)) -}}
{{- end -}}
