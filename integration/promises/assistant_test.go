package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
)

// assistant is a client of the Model Context Protocol.
type assistant struct {
	*harness.Place
	*mcp.ClientSession
}

func converse(p *harness.Place, by mcp.Transport) (*assistant, error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), harness.Patience)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil).Connect(ctx, by, nil)
	if err != nil {
		return nil, err
	}
	p.Cleanup(func() { _ = s.Close() })
	return &assistant{p, s}, nil
}

// use calls a tool.
func (a *assistant) use(tool, arguments string) (text string, wrong bool) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), harness.Patience)
	defer cancel()
	is, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range is.Content {
		if part, ok := c.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	return text, is.IsError
}

// must calls a tool that is to answer.
func (a *assistant) must(tool, arguments string) string {
	a.Helper()
	text, wrong := a.use(tool, arguments)
	if wrong {
		a.Fatalf("%s %s: %s", tool, arguments, text)
	}
	return text
}

func (a *assistant) has() (names []string) {
	a.Helper()
	for is, err := range a.Tools(a.Context(), nil) {
		if err != nil {
			a.Fatal(err)
		}
		names = append(names, is.Name)
	}
	return names
}

// bearer sends a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// askOverHTTP asks the server of a place with a token.
func askOverHTTP(p *harness.Place, token string) (*assistant, error) {
	p.Helper()
	url, err := os.ReadFile(p.Path("data/http.url"))
	if err != nil {
		p.Fatal(err)
	}
	return converse(p, &mcp.StreamableClientTransport{Endpoint: strings.TrimSpace(string(url)) + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}})
}

// overStdio starts millrace mcp.
func overStdio(p *harness.Place, args ...string) *assistant {
	p.Helper()
	cmd := exec.Command(p.Program, append([]string{"mcp"}, args...)...)
	cmd.Dir, cmd.Env = p.Dir, p.CommandEnv()
	a, err := converse(p, &mcp.CommandTransport{Command: cmd})
	if err != nil {
		p.Fatal(err)
	}
	return a
}

// An assistant that is asked why the backup failed finds it with the tools, and runs it again. The page has
// what was said.
func TestAssistant(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "vm")
	p.Write("backup.yaml", `name: backup
title: Copies the database to a disk
params:
  - {name: disk, type: string, enum: [nas, usb], default: nas, description: where the copy goes}
run:
  shell: 'echo "copying to $P_DISK" >&2; if [ -e "no-$P_DISK" ]; then echo "disk $P_DISK is not mounted" >&2; exit 3; fi'
  params_env: true
  dir: `+p.Dir+`
`)
	p.Run("job", "apply", "-f", "backup.yaml")
	good := strings.Fields(p.Run("run", "backup", "-p", "disk=usb"))[0]
	p.Run("task", "wait", good)
	p.Write("no-nas", "")
	bad := strings.Fields(p.Run("run", "backup"))[0]
	c := p.Connect()
	p.Await(c, task.ID(bad), task.Error)

	a := overStdio(p)
	var page strings.Builder
	page.WriteString("```\n")
	say := func(tool, arguments string, fields ...string) string {
		t.Helper()
		text := a.must(tool, strings.NewReplacer("BAD", bad, "GOOD", good).Replace(arguments))
		fmt.Fprintf(&page, "> %s %s\n", tool, arguments)
		for _, f := range fields {
			found := picked(t, text, strings.Split(f, "/"))
			fmt.Fprintf(&page, "  %s: %s\n", f, strings.NewReplacer(bad, "BAD", good, "GOOD").Replace(found))
		}
		return text
	}
	p.Until("the failure is in the list", func() bool {
		return strings.Contains(a.must("attention_list", "{}"), bad)
	})
	say("task_list", `{"query":"job:backup","limit":2}`, "tasks/0/state", "tasks/1/state")
	say("task_why", `{"id":"BAD"}`, "message")
	say("task_output", `{"id":"BAD","tail":1}`, "batches/0/of/lines/0/text")
	say("task_diff", `{"id":"GOOD","with":"BAD"}`, "changes/field=params.disk")
	text := say("run_backup", `{"disk":"usb"}`)
	again := picked(t, text, []string{"id"})
	if wait := a.must("task_wait", `{"id":"`+again+`"}`); picked(t, wait, []string{"task", "state"}) != "finished" {
		t.Errorf("the new task: %s", wait)
	}
	if steps := a.must("log_replay", `{"task":"`+bad+`","limit":2}`); !strings.Contains(steps, "task.submitted") {
		t.Errorf("the steps of the task: %s", steps)
	}
	if text, wrong := a.use("run_backup", `{"disk":"tape"}`); !wrong || !strings.Contains(text, "want nas or usb") {
		t.Errorf("a parameter that the job has not: %t, %s", wrong, text)
	}
	page.WriteString("```\n")
	testkit.Reference(t, "../../docs/assistants.md", "session", page.String())

	if looks := overStdio(p, "--role", "viewer"); slices.Contains(looks.has(), "run_backup") || !slices.Contains(looks.has(), "task_why") {
		t.Errorf("with --role viewer there are %q", looks.has())
	}
	for role, want := range map[string]string{"viewer": "submitter or operator; the user role-viewer is a viewer", "submitter": "", "operator": ""} {
		token := strings.Fields(p.Run("token", "add", "role-"+role, "--role", role))
		var b *assistant
		p.Until("the token of a "+role+" counts", func() (ok bool) {
			var err error
			b, err = askOverHTTP(p, token[len(token)-1])
			return err == nil
		})
		text, wrong := b.use("run_backup", `{"disk":"usb"}`)
		if wrong != (want != "") || !strings.Contains(text, want) {
			t.Errorf("a %s runs it over HTTP: %t, %s", role, wrong, text)
		}
		if names := b.has(); slices.Contains(names, "run_backup") != (role == "operator") {
			t.Errorf("a %s has %q", role, names)
		}
		if text, wrong := b.use("task_why", `{"id":"`+bad+`"}`); wrong != (role == "submitter") || wrong && !strings.Contains(text, "was submitted by somebody else") {
			t.Errorf("a %s asks why: %t, %s", role, wrong, text)
		}
		if wrong {
			continue
		}
		if by := p.Run("task", "events", picked(t, text, []string{"id"}), "-o", "json"); !strings.Contains(by, "role-"+role) {
			t.Errorf("who made the task that %s asked for: %s", role, by)
		}
		p.Run("token", "rm", "role-"+role, "--yes")
		p.Until("a token that is removed counts no more", func() bool {
			text, wrong := b.use("job_list", "{}")
			return wrong && strings.Contains(text, "Unauthorized")
		})
	}
	if _, err := askOverHTTP(p, "nonsense"); err == nil {
		t.Error("nobody was let in over HTTP")
	}
	dev.Stop() // though assistants still listen
}

// picked is a value in JSON, a text without its quotes. The path has names of fields, and which row of a list.
func picked(t *testing.T, text string, path []string) string {
	t.Helper()
	is := json.RawMessage(text)
	for _, name := range path {
		var fields map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(is, &fields) == nil {
			is = fields[name]
		} else if field, value, ok := strings.Cut(name, "="); ok && json.Unmarshal(is, &list) == nil {
			i := slices.IndexFunc(list, func(row json.RawMessage) bool {
				return strings.Contains(string(row), fmt.Sprintf("%q:%q", field, value))
			})
			if i < 0 {
				t.Fatalf("there is no %q in %s", path, text)
			}
			is = list[i]
		} else if i := 0; json.Unmarshal(is, &list) == nil && json.Unmarshal([]byte(name), &i) == nil && i < len(list) {
			is = list[i]
		} else {
			t.Fatalf("there is no %q in %s", path, text)
		}
	}
	var plain string
	if json.Unmarshal(is, &plain) != nil {
		return string(is)
	}
	return plain
}
