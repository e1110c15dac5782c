package house

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that submits tasks, or runs them, carries neither a NATS server nor a database.
func TestProgramsOfUsersAreLight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg    string
		server bool
	}{
		{"client", false},
		{"worker", false},
		{"clients/millrace", false},
		{"jet/embed", true}, // proves that the test finds imports
	} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+c.pkg)
		list.Dir = root(t)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.pkg, err)
		}
		for _, heavy := range []string{"nats-server/v2/server", "sqlite", "spf13/cobra", "prometheus/client_golang", "expr-lang", "bubbletea", "opentelemetry"} {
			if has := strings.Contains(string(out), heavy); has != (c.server && heavy == "nats-server/v2/server") {
				t.Errorf("%s links %s: %v", c.pkg, heavy, has)
			}
		}
	}
}
