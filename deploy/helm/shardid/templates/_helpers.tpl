{{/* Prefix of all names, short enough for the suffixes of pods and of their volumes. */}}
{{- define "shardid.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-shardid" .Release.Name) (contains "shardid" .Release.Name) -}}
{{- end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "shardid.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "shardid.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* What all objects of a release share. The name is fixed: it is the job that the alerts look for. */}}
{{- define "shardid.selector" -}}
app.kubernetes.io/name: shardid
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The replicas, and not the Jobs. */}}
{{- define "shardid.server" -}}
{{ include "shardid.selector" . }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "shardid.labels" -}}
{{ include "shardid.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "shardid.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* config.yaml: the values and what the chart decides. */}}
{{- define "shardid.config" -}}
{{- $server := dict "addr" ":8080" -}}
{{- if or .Values.tokens.existingSecret .Values.tokens.entries -}}
{{- $_ := set $server "tokens_file" (printf "/etc/shardid-tokens/%s" .Values.tokens.key) -}}
{{- end -}}
{{- if .Values.tls.existingSecret -}}
{{- $_ := set $server "tls_cert_file" "/etc/shardid-tls/tls.crt" -}}
{{- $_ := set $server "tls_key_file" "/etc/shardid-tls/tls.key" -}}
{{- if .Values.tls.clientCA -}}
{{- $_ := set $server "tls_client_ca_file" "/etc/shardid-tls/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- $own := dict "server" $server "data_dir" "/data" -}}
{{- if .Values.resp.enabled -}}
{{- $_ := set $own "resp" (dict "addr" (printf ":%d" (int .Values.resp.port))) -}}
{{- end -}}
{{- mustMergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end -}}

{{/* The variables that the chart's own Secret holds; empty with existingSecret. */}}
{{- define "shardid.secrets" -}}
{{- with .Values.secrets.databaseDSN }}
SHARDID_DATABASE_DSN: {{ . | b64enc | quote }}
{{- end }}
{{- with .Values.secrets.redisURL }}
SHARDID_REDIS_URL: {{ . | b64enc | quote }}
{{- end }}
{{- with .Values.secrets.adminToken }}
SHARDID_SERVER_ADMIN_TOKEN: {{ . | b64enc | quote }}
{{- end }}
{{- end -}}

{{/* envFrom: a list of the root and the name of the chart's own Secret. */}}
{{- define "shardid.envFrom" -}}
{{- $root := index . 0 -}}
{{- $own := ternary (index . 1) "" (ne (include "shardid.secrets" $root) "") -}}
{{- with $root.Values.existingSecret | default $own }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- with $root.Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* GOMEMLIMIT of a limit of memory, 220 of 256 MiB: the collector works harder before the kernel ends the process. */}}
{{- define "shardid.memory" -}}
{{- $limit := dig "limits" "memory" "" . | toString -}}
{{- $mebibytes := 0 -}}
{{- if regexMatch "^[0-9]+Mi$" $limit -}}
{{- $mebibytes = trimSuffix "Mi" $limit | atoi -}}
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{- $mebibytes = mul 1024 (trimSuffix "Gi" $limit | atoi) -}}
{{- end -}}
{{- if $mebibytes }}
- name: GOMEMLIMIT
  value: {{ div (mul $mebibytes 220) 256 }}MiB
{{- end -}}
{{- end -}}

{{/* A probe of a page: a list of the root, the page and the times. A client certificate, which the kubelet lacks, the command has. */}}
{{- define "shardid.probe" -}}
{{- $root := index . 0 -}}
{{- $page := index . 1 -}}
{{- if and $root.Values.tls.existingSecret $root.Values.tls.clientCA -}}
exec:
  command: [/shardid, health, --url, {{ $page }}]
{{- else -}}
httpGet:
  path: {{ $page }}
  port: http
  {{- if $root.Values.tls.existingSecret }}
  scheme: HTTPS
  {{- end }}
{{- end }}
{{ toYaml (index . 2) }}
{{- end -}}

{{/* On OpenShift the namespace says which user and group a pod has, and refuses others. */}}
{{- define "shardid.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext -}}
{{- if .Values.openshift -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}
