{{- define "sluice.fullname" -}}
{{- if contains "sluice" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-sluice" .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice.image" -}}
{{- if .Values.image.digest -}}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}
{{- end -}}

{{/* The configuration as variables: those of the values, less the names that the caller sets itself. */}}
{{- define "sluice.env" -}}
{{- $own := .own | default dict -}}
{{- $config := deepCopy .root.Values.config -}}
{{- if .root.Values.lease.enabled -}}
{{- $config = mergeOverwrite (dict "distributed.conn_lease_enabled" true "distributed.rate_limiter_enabled" true "distributed.conn_lease_table" (required "lease.table: name the DynamoDB table of the leases" .root.Values.lease.table)) $config -}}
{{- end -}}
{{- $config = mergeOverwrite $config $own -}}
{{- range $key := keys $config | sortAlpha }}
{{- $value := index $config $key }}
- name: DSQL_{{ $key | replace "." "_" | upper }}
  value: {{ include "sluice.value" $value | quote }}
{{- end }}
{{- end -}}

{{- define "sluice.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The configuration as arguments of the injector. */}}
{{- define "sluice.set" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.lease.enabled -}}
{{- $config = mergeOverwrite (dict "distributed.conn_lease_enabled" true "distributed.rate_limiter_enabled" true "distributed.conn_lease_table" (required "lease.table: name the DynamoDB table of the leases" .Values.lease.table)) $config -}}
{{- end -}}
{{- range $key := keys $config | sortAlpha }}
{{- $value := index $config $key }}
- {{ printf "--set=%s=%s" $key (include "sluice.value" $value) | quote }}
{{- end }}
{{- end -}}

{{/* A value as a variable or an argument has it. */}}
{{- define "sluice.value" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "float64" . }}{{ if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else }}{{ . }}{{ end -}}
{{- end -}}
