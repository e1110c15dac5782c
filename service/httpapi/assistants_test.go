package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"millrace/events/jet/rights"
)

// service answers as the service would, with one job and rows of 1,000 bytes.
func service(_ context.Context, verb rights.Verb, request json.RawMessage) (json.RawMessage, error) {
	var asks struct {
		Limit, Tail int
		ID          string
	}
	if err := json.Unmarshal(request, &asks); err != nil {
		return nil, err
	}
	rows := max(asks.Limit, asks.Tail)
	switch {
	case verb == rights.JobList:
		return json.RawMessage(`{"jobs":[{"name":"backup","title":"Backs up","params":[{"name":"disk","type":"string"}]},{"name":"plain"}]}`), nil
	case verb == rights.TaskWhy && asks.ID == "gone":
		return nil, errors.New("there is no such task")
	case verb == rights.TaskList || verb == rights.TaskOutput:
		if rows == 0 {
			rows = 100
		}
		return json.RawMessage(`"` + strings.Repeat("x", rows*1000) + `"`), nil
	case verb == rights.TaskGet:
		return json.RawMessage(`"` + strings.Repeat("é", mostBytes) + `"`), nil
	}
	return fmt.Appendf(nil, `{"verb":%q,"request":%s}`, verb, request), nil
}

// session connects an assistant to a server for a role.
func session(t *testing.T, role rights.Role) *mcp.ClientSession {
	t.Helper()
	c := &Assistant{Name: "ada", Role: role, Ask: service}
	here, there := mcp.NewInMemoryTransports()
	serving, err := c.server("0.0.0").Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = serving.Wait()
	})
	return s
}

func use(t *testing.T, s *mcp.ClientSession, tool string, arguments any) (text string, wrong bool) {
	t.Helper()
	is, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range is.Content {
		part, ok := c.(*mcp.TextContent)
		if !ok {
			t.Fatalf("%s answers with %T", tool, c)
		}
		text += part.Text
	}
	return text, is.IsError
}

// Each role has the tools of its verbs, and is told which right the others take.
func TestToolsOfRoles(t *testing.T) {
	t.Parallel()
	legal := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	has := map[rights.Role][]string{}
	for _, role := range []rights.Role{rights.Viewer, rights.Submitter, rights.Operator} {
		s := session(t, role)
		for is, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			schema, err := json.Marshal(is.InputSchema)
			if err != nil || strings.Contains(string(schema), "$ref") || !legal.MatchString(is.Name) || is.Description == "" {
				t.Errorf("tool %q, %q: %s, %v", is.Name, is.Description, schema, err)
			}
			if reads := is.Name != "task_submit" && !strings.HasPrefix(is.Name, runs); is.Annotations.ReadOnlyHint != reads {
				t.Errorf("%s only reads: %t, want %t", is.Name, is.Annotations.ReadOnlyHint, reads)
			}
			has[role] = append(has[role], is.Name)
		}
	}
	if got, want := has[rights.Submitter], []string{"task_wait", "task_why", "task_output", "task_records", "task_submit", "task_get"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("a submitter has the tools %q, want %q", got, want)
	}
	for _, name := range []string{"task_submit", "run_backup", "run_plain"} {
		if slices.Contains(has[rights.Viewer], name) || !slices.Contains(has[rights.Operator], name) {
			t.Errorf("a viewer has %q, an operator %q", has[rights.Viewer], has[rights.Operator])
		}
	}
	for _, of := range []struct {
		role rights.Role
		tool string
		want string
	}{
		{rights.Viewer, "run_backup", "this takes the role submitter or operator; the user ada is a viewer"},
		{rights.Viewer, "task_submit", "this takes the role submitter or operator; the user ada is a viewer"},
		{rights.Submitter, "attention_list", "this takes the role viewer or operator; the user ada is a submitter"},
		{rights.Submitter, "task_why", `{"verb":"own.why","request":{}}`},
		{rights.Submitter, "run_unknown", `{"verb":"task.submit","request":{"job":"unknown","params":{}}}`},
	} {
		if text, _ := use(t, session(t, of.role), of.tool, map[string]any{}); text != of.want {
			t.Errorf("a %s who calls %s is told %s, want %s", of.role, of.tool, text, of.want)
		}
	}
}

// A wrong call says what is wrong with it; a null counts as nothing, for assistants fill in what they leave out.
func TestCalls(t *testing.T) {
	t.Parallel()
	s := session(t, rights.Operator)
	for _, of := range []struct {
		tool, arguments, want string
		wrong                 bool
	}{
		{"task_why", `{"id":"a","at":null}`, `{"verb":"task.why","request":{"id":"a"}}`, false},
		{"task_why", `{"id":"gone"}`, "there is no such task", true},
		{"task_why", `{"ids":"a"}`, `there is no field "ids" in task.why; it takes at, id; is id meant?`, true},
		{"task_submit", `{"spec":{"run":{"argv":["rm"]}}}`, `there is no field "spec" in task.submit; it takes job, params`, true},
		{"run_backup", `{"disk":"a"}`, `{"verb":"task.submit","request":{"job":"backup","params":{"disk":"a"}}}`, false},
		{"task_wy", `{}`, `there is no tool "task_wy"; is task_why meant?`, true},
		{"log_replay", `{"from":"-10m","limit":3}`, `{"verb":"log.replay","request":{"from":"-10m","limit":3}}`, false},
	} {
		text, wrong := use(t, s, of.tool, json.RawMessage(of.arguments))
		if !strings.Contains(text, of.want) || wrong != of.wrong {
			t.Errorf("%s %s: %t, %s\nwant %t, %s", of.tool, of.arguments, wrong, text, of.wrong, of.want)
		}
	}
}

// An assistant is given no more than it can read: fewer rows, or the beginning.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := session(t, rights.Operator)
	for _, of := range []struct {
		tool, arguments string
		least           int
		cut             bool
	}{
		{"task_list", `{}`, 20_000, false},
		{"task_list", `{"limit":1000}`, 40_000, false},
		{"task_output", `{"id":"a","tail":1000}`, 40_000, false},
		{"task_get", `{"id":"a"}`, mostBytes, true},
	} {
		text, wrong := use(t, s, of.tool, json.RawMessage(of.arguments))
		if wrong || len(text) < of.least || len(text) > mostBytes+200 || strings.HasPrefix(text, "(cut: ") != of.cut {
			t.Errorf("%s %s: %d bytes, %t, %.100s", of.tool, of.arguments, len(text), wrong, text)
		}
	}
}

// Whatever comes in, the server answers what it can, ends with its input, and does not fail.
func TestGarbage(t *testing.T) {
	t.Parallel()
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for _, in := range []string{
		"", "\n\n", "garbage\n", "{}\n", "[]\n", "null\n", "\x00\xff\n", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}` + "\n",
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call"}` + "\n", hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}` + "\n",
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_why","arguments":7}}` + "\n",
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_` + strings.Repeat("x", 9000) + `","arguments":[[[]]]}}` + "\n",
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":[]}` + "\n", hello + `{"jsonrpc":"2.0","id":2,"method":"no/such"}` + "\n",
		hello + strings.Repeat("[", 100_000) + "\n", strings.Repeat("x", longestMessage+1) + "\n",
	} {
		var said strings.Builder
		done := make(chan error, 1)
		go func() {
			done <- TalkMCP(t.Context(), "0.0.0", strings.NewReader(in), &said, Assistant{Name: "ada", Role: rights.Operator, Ask: service})
		}()
		err := <-done
		if in == "" && err != nil {
			t.Errorf("an assistant that says nothing: %v", err)
		}
		if more, ok := strings.CutPrefix(in, hello); ok && json.Valid([]byte(more)) && (err != nil || !strings.Contains(said.String(), `"id":2,`)) {
			t.Errorf("%.200s is answered with %v, %s", more, err, said.String())
		}
	}
	// A script writes all that it asks, and closes.
	var said strings.Builder
	slow := func(ctx context.Context, verb rights.Verb, request json.RawMessage) (json.RawMessage, error) {
		for range 1000 {
			runtime.Gosched() // the input ends meanwhile
		}
		return service(ctx, verb, request)
	}
	in := hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_why","arguments":{"id":"a"}}}` + "\n"
	if err := TalkMCP(t.Context(), "0.0.0", strings.NewReader(in), &said, Assistant{Name: "ada", Role: rights.Operator, Ask: slow}); err != nil || !strings.Contains(said.String(), `"id":2,"result"`) {
		t.Errorf("a script is answered %s, %v", said.String(), err)
	}
}
