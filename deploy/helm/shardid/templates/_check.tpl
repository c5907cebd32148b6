{{/* What belongs together and the schema cannot say: the render fails with what to do. */}}
{{- define "shardid.check" -}}
{{- $v := .Values -}}
{{- $driver := $v.config.database.driver -}}
{{- $redis := $v.config.redis.mode -}}
{{- $made := include "shardid.secrets" . -}}
{{- if and $v.existingSecret $made -}}
{{- fail "existingSecret and secrets are both set: keep one of them" -}}
{{- end -}}
{{- $named := false -}}
{{- range $v.extraEnv -}}{{- if eq .name "SHARDID_DATABASE_DSN" -}}{{- $named = true -}}{{- end -}}{{- end -}}
{{- if and (eq $driver "mysql") (not (or $v.existingSecret $v.secrets.databaseDSN $named $v.extraEnvFrom)) -}}
{{- fail "the database has no DSN: set existingSecret to a Secret with the key SHARDID_DATABASE_DSN, or secrets.databaseDSN to user:password@tcp(host:3306)/shardid" -}}
{{- end -}}
{{- if and (ne $redis "embedded") (not $v.config.redis.addrs) -}}
{{- fail (printf "config.redis.mode is %s but config.redis.addrs is empty: list host:port of the servers" $redis) -}}
{{- end -}}
{{- if and (or (eq $driver "sqlite") (eq $redis "embedded")) (or $v.autoscaling.enabled (gt (int $v.replicas) 1)) -}}
{{- fail "an embedded store is for one replica: set autoscaling.enabled to false and replicas to 1, or config.database.driver to mysql and config.redis.mode to single" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas: lower it" -}}
{{- end -}}
{{- if and $v.apps (or (eq $driver "sqlite") (not $v.migrate.enabled)) -}}
{{- fail "apps needs a database server and migrate.enabled, as a Job provisions them: use shardid provision in the pod" -}}
{{- end -}}
{{- $worker := dig "snowflake" "worker" "mode" "mysql" $v.config -}}
{{- if has $worker (list "zk" "zk_normal" "local") -}}
{{- fail (printf "config.snowflake.worker.mode %s binds a worker ID to an address, and pods get new ones: use mysql, redis, zk_recycle, zk_ephemeral or ordinal" $worker) -}}
{{- end -}}
{{- if and $v.tokens.existingSecret $v.tokens.entries -}}
{{- fail "tokens.existingSecret and tokens.entries are both set: keep one of them" -}}
{{- end -}}
{{- if and $v.tls.clientCA (not $v.tls.existingSecret) -}}
{{- fail "tls.clientCA is set but tls.existingSecret is empty: clients show certificates over TLS only" -}}
{{- end -}}
{{- if and $v.resp.enabled (eq (int $v.resp.port) 8080) -}}
{{- fail "resp.port is 8080, the port of HTTP: give it one of its own" -}}
{{- end -}}
{{- end -}}
