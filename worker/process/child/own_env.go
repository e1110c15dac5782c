package child

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// WorkersOwn is the worker's environment without what is meant for the worker alone. Tasks, setup
// lines, the guard and the shims get no more of it.
var WorkersOwn = sync.OnceValue(func() []string { return slices.DeleteFunc(os.Environ(), forWorker) })

// forWorker tells whether a variable is meant for the worker alone: its settings and identity, how
// it reaches NATS and as whom, where systemd keeps its credentials, and with which words it reaches a collector of
// traces, for there tokens stand.
func forWorker(variable string) bool {
	for _, start := range []string{"MILLRACE_", "NATS_", "CREDENTIALS_DIRECTORY="} {
		if strings.HasPrefix(variable, start) {
			return true
		}
	}
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
}

// HelpersEnv is the environment of the guard and of the shims. A worker that is itself part of a
// task leaves that task's mark on them, by which its outer worker finds them.
func HelpersEnv() []string {
	env := slices.Clip(WorkersOwn())
	if run, ok := os.LookupEnv(RunVar); ok {
		env = append(env, RunVar+"="+run)
	}
	return env
}
