# Reads the last stage of deploy/docker/Dockerfile, a line an instruction, and gives the configuration of the image.
# scripts/publish.sh gives it the other values.

def nanoseconds: capture("^(?<seconds>[0-9]+)s$").seconds | tonumber * 1000000000;
def flag($name): capture("--\($name)=(?<value>[^ ]+)").value;

reduce (inputs | capture("^(?<name>[A-Z]+) +(?<value>.*)$")) as {$name, $value} ({};
  if $name == "LABEL" then
    .Labels = ([$value | scan("([a-z.]+)=\"([^\"]*)\"") | {key: .[0], value: .[1]}] | from_entries)
  elif $name == "EXPOSE" then .ExposedPorts = ([$value | scan("[0-9]+") | {key: "\(.)/tcp", value: {}}] | from_entries)
  elif $name == "HEALTHCHECK" then .Healthcheck = {
    Test: (["CMD"] + ($value | capture(" CMD (?<command>.*)").command | fromjson)),
    Interval: ($value | flag("interval") | nanoseconds),
    Timeout: ($value | flag("timeout") | nanoseconds),
    StartPeriod: ($value | flag("start-period") | nanoseconds),
    Retries: ($value | flag("retries") | tonumber)
  }
  elif $name == "USER" then .User = $value
  elif $name == "WORKDIR" then .WorkingDir = $value
  elif $name == "VOLUME" then .Volumes[$value] = {}
  elif $name == "ENTRYPOINT" then .Entrypoint = ($value | fromjson)
  elif $name == "CMD" then .Cmd = ($value | fromjson)
  elif $name == "COPY" or $name == "ARG" then .
  else error("say what \($name) of the Dockerfile becomes in scripts/image.jq") end)
| .Labels["org.opencontainers.image.revision"] = $revision
| .Labels["org.opencontainers.image.source"] = $source
| {
  architecture: $arch, os: "linux", created: $created, config: .,
  rootfs: {type: "layers", diff_ids: [$layer]},
  history: [{created: $created, created_by: "deploy/docker/Dockerfile"}]
}
