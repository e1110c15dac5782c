package house

import (
	"os/exec"
	"strings"
	"testing"
)

// heavies are what no program of a user is to link that does not ask for it.
var heavies = []string{"nats-server/v2/server", "sqlite", "spf13/cobra", "prometheus/client_golang", "expr-lang", "bubbletea", "opentelemetry", "modelcontextprotocol", "millracetest"}

// A program that submits tasks, or runs them, carries neither a NATS server nor a database.
func TestProgramsOfUsersAreLight(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}: {{.Deps}}", ".", "./service/client", "./worker", "./ipc/clients/go", "./events/jet/embed")
	list.Dir = root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(packages) != 5 {
		t.Fatalf("go list has %d packages", len(packages))
	}
	for _, line := range packages {
		pkg, deps, _ := strings.Cut(line, ": ")
		for _, heavy := range heavies {
			server := pkg == module+"events/jet/embed" // proves that the test finds imports
			if has := strings.Contains(deps, heavy); has != (server && heavy == "nats-server/v2/server") {
				t.Errorf("%s links %s: %v", pkg, heavy, has)
			}
		}
	}
}
