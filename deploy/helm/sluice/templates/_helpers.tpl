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

{{/* The configuration of the values, as JSON. */}}
{{- define "sluice.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.lease.enabled -}}
{{- $table := required "lease.table: name the DynamoDB table of the leases" .Values.lease.table -}}
{{- $config = mergeOverwrite (dict "distributed.conn_lease_enabled" true "distributed.rate_limiter_enabled" true "distributed.conn_lease_table" $table) $config -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/* The configuration as variables. What the chart sets itself, own, wins. */}}
{{- define "sluice.env" -}}
{{- $config := mergeOverwrite (include "sluice.config" .root | fromJson) .own -}}
{{- range $key := keys $config | sortAlpha }}
- name: DSQL_{{ $key | replace "." "_" | upper }}
  value: {{ include "sluice.value" (index $config $key) | quote }}
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

{{/* The configuration as arguments of the injector, which refuses what no pod may be given. */}}
{{- define "sluice.set" -}}
{{- $config := include "sluice.config" . | fromJson -}}
{{- range $key := keys $config | sortAlpha }}
{{- if has $key (list "auth.salt_secret_file" "auth.users_file" "backend.ca_file" "distributed.conn_lease_file" "drain.mode" "listen.unix_socket" "tls.cert_file" "tls.client_ca_file" "tls.key_file" "tls.required") }}
{{- fail (printf "config.%s: injected containers have no files, and their drain.mode is native: leave it out, or install the injector as a release of its own" $key) }}
{{- end }}
- {{ printf "--set=%s=%s" $key (include "sluice.value" (index $config $key)) | quote }}
{{- end }}
{{- end -}}

{{/* A value as a variable or an argument has it. Kubernetes would expand a dollar sign. */}}
{{- define "sluice.value" -}}
{{- if kindIs "slice" . }}{{ join "," . | replace "$" "$$" }}{{ else if kindIs "float64" . }}{{ if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else }}{{ toString . | replace "$" "$$" }}{{ end -}}
{{- end -}}
