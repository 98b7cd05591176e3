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

{{/* GOMEMLIMIT, in bytes: memoryLimit, or four fifths of the container's memory limit; nothing where it has none. */}}
{{- define "sluice.memoryLimit" -}}
{{- $limits := (.part.resources | default dict).limits | default dict -}}
{{- $limit := $limits.memory | default "" -}}
{{- if kindIs "float64" $limit }}{{ $limit = printf "%.0f" $limit }}{{ end -}}
{{- if .part.memoryLimit -}}
{{ .part.memoryLimit }}
{{- else if $limit -}}
{{- $parts := regexFindAll "^[0-9.]+|[A-Za-z]+$" (toString $limit) -1 -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := "" -}}
{{- if gt (len $parts) 1 }}{{ $unit = index $parts 1 }}{{ end -}}
{{- if or (not (regexMatch "^[0-9]+(\\.[0-9]+)?[A-Za-z]*$" (toString $limit))) (not (hasKey $units $unit)) -}}
{{- fail (printf "%s.memoryLimit: give it, since resources.limits.memory is %v" .name $limit) -}}
{{- end -}}
{{- printf "%.0f" (floor (mulf (float64 (index $parts 0)) (index $units $unit) 0.8)) -}}
{{- end -}}
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
