package child

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// WorkersOwn returns the worker's environment without the variables meant for the worker alone.
// Tasks, setup lines, the guard and the shims get only these.
var WorkersOwn = sync.OnceValue(func() []string { return slices.DeleteFunc(os.Environ(), forWorker) })

// forWorker tells whether a variable is meant for the worker alone: its settings and identity, how
// and as which user it reaches NATS, where systemd keeps its credentials, and its headers for a
// trace collector, which may hold tokens.
func forWorker(variable string) bool {
	for _, start := range []string{"MILLRACE_", "NATS_", "CREDENTIALS_DIRECTORY="} {
		if strings.HasPrefix(variable, start) {
			return true
		}
	}
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
}

// HelpersEnv returns the environment of the guard and of the shims. If this worker is itself part
// of a task, they keep that task's mark, by which the outer worker finds them.
func HelpersEnv() []string {
	env := slices.Clip(WorkersOwn())
	if run, ok := os.LookupEnv(RunVar); ok {
		env = append(env, RunVar+"="+run)
	}
	return env
}
