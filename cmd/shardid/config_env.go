package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

func (l *loader) readEnv(environ []string) error {
	names, values := []string{}, map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if ok && strings.HasPrefix(name, envPrefix+"_") {
			names = append(names, name)
			values[name] = value
		}
	}
	slices.Sort(names)
	for _, name := range names {
		k, ok := l.byEnv(name)
		if !ok && fromKubernetes(name, values) {
			continue
		}
		if !ok {
			return unknownEnv(name, l.keys)
		}
		if err := l.set(k, values[name], origin{where: "environment " + name}); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) byEnv(name string) (configKey, bool) {
	i := slices.IndexFunc(l.keys, func(k configKey) bool { return k.env() == name })
	if i < 0 {
		return configKey{}, false
	}
	return l.keys[i], true
}

func unknownEnv(name string, keys []configKey) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.env()
	}
	advice := didYouMean(name, names, 1+(len(name)-len(envPrefix))/3, "unset it, or "+docHint)
	return origin{where: "environment " + showName(name)}.fail("", errors.New("unknown variable: "+advice))
}

// fromKubernetes says whether Kubernetes made the variable, as it does in every
// pod for each service: for the service shardid itself, and for those called
// shardid-…, which it announces by …_SERVICE_HOST.
// See https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables.
func fromKubernetes(name string, all map[string]string) bool {
	services := []string{envPrefix}
	for other := range all {
		if service, ok := strings.CutSuffix(other, "_SERVICE_HOST"); ok {
			services = append(services, service)
		}
	}
	return slices.ContainsFunc(services, func(service string) bool {
		rest, ok := strings.CutPrefix(name, service)
		return ok && isServiceSuffix(rest)
	})
}

func isServiceSuffix(rest string) bool {
	switch rest {
	case "_SERVICE_HOST", "_SERVICE_PORT", "_PORT":
		return true
	}
	if strings.HasPrefix(rest, "_SERVICE_PORT_") {
		return true
	}
	port, ok := strings.CutPrefix(rest, "_PORT_")
	number, _, _ := strings.Cut(port, "_")
	_, err := strconv.ParseUint(number, 10, 16)
	return ok && err == nil
}
