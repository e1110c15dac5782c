package millrace

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestConversation plays Millrace's side: it answers messages with an id.
func TestConversation(t *testing.T) {
	in, tell := io.Pipe()
	hear, out := io.Pipe()
	defer tell.Close()
	env := map[string]string{"MILLRACE_STDIN": "open", "MILLRACE_PARAMS": `{"depth":2}`, "MILLRACE_CHECKPOINT": `7`}
	p := open(in, out, func(name string) string { return env[name] })
	heard := make(chan string, 100)
	go func() {
		defer close(heard)
		for scan := bufio.NewScanner(hear); scan.Scan(); {
			heard <- scan.Text()
		}
	}()
	says := func(line string) {
		t.Helper()
		if _, err := io.WriteString(tell, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(want string) {
		t.Helper()
		if got := <-heard; got != want {
			t.Errorf("the program said %s\nwant %s", got, want)
		}
	}

	says(`{"v":1,"type":"INIT","payload":{"task":"01J","attempt":2}}`)
	if i, ok := p.Init(); !ok || i.Task != "01J" || i.Attempt != 2 {
		t.Errorf("init %+v, %v", i, ok)
	}
	var params struct{ Depth int }
	var last int
	if err := errors.Join(p.Params(&params), p.Last(&last)); err != nil || params.Depth != 2 || last != 7 {
		t.Errorf("params %+v, last %d, %v", params, last, err)
	}
	for _, err := range []error{p.Status("up"), p.Progress(1, 4), p.Data(map[string]int{"a": 1}), p.Checkpoint(8), p.Ready()} {
		if err != nil {
			t.Error(err)
		}
	}
	hears(`{"v":1,"type":"STATUS","payload":"up"}`)
	hears(`{"v":1,"type":"PROGRESS","payload":{"done":1,"total":4}}`)
	hears(`{"v":1,"type":"INSERT_DATA","payload":{"a":1}}`)
	hears(`{"v":1,"type":"CHECKPOINT","payload":8}`)
	hears(`{"v":1,"type":"READY"}`)

	says("no message at all")
	says(`{"type":"PING"}`)
	hears(`{"v":1,"type":"HEARTBEAT"}`)

	go func() {
		<-heard
		_, _ = io.WriteString(tell, `{"type":"ACK","payload":{"id":"go-1","ok":true,"task":"01K"}}`+"\n") // the test fails if it is missed
	}()
	if id, err := p.Spawn(t.Context(), map[string]any{"job": "page"}); err != nil || id != "01K" {
		t.Errorf("spawn %s, %v", id, err)
	}
	go func() {
		<-heard
		_, _ = io.WriteString(tell, `{"type":"ACK","payload":{"id":"go-2","ok":false,"error":"no such thing"}}`+"\n")
	}()
	if _, err := p.Extend(t.Context(), time.Minute); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("extend: %v", err)
	}

	says(`{"type":"CANCEL","payload":{"reason":"a person asked"}}`)
	<-p.Context().Done()
	if err := context.Cause(p.Context()); err.Error() != "a person asked" {
		t.Errorf("cancelled: %v", err)
	}
	tell.Close()
	for errors.Is(p.CheckpointStored(t.Context(), 9), nil) {
		t.Error("an answer after the end of the input")
	}
	out.Close()
}

func TestNothingAnswers(t *testing.T) {
	var out strings.Builder
	p := open(strings.NewReader(""), &out, func(string) string { return "" })
	if err := p.DataStored(t.Context(), map[string]int{}); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
	if _, ok := p.Init(); ok || out.String() != "" {
		t.Errorf("init %v, said %q", ok, out.String())
	}
}

// TestTooLong: values that Millrace would refuse are not sent.
func TestTooLong(t *testing.T) {
	var out strings.Builder
	p := open(strings.NewReader(""), &out, func(string) string { return "" })
	big := strings.Repeat("x", 64<<10)
	for name, err := range map[string]error{"result": p.Result(big), "checkpoint": p.Checkpoint(big), "data": p.Data(map[string]string{"a": strings.Repeat(big, 16)})} {
		if !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v, want ErrTooLong", name, err)
		}
	}
	if err := p.Result(big[:64<<10-2]); err != nil || !strings.HasPrefix(out.String(), `{"v":1,"type":"RESULT"`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("the longest result: %v, and %.80q was sent", err, out.String())
	}
}

// A value too long for a variable is in a file.
func TestVariableInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "params")
	if err := os.WriteFile(path, []byte(`{"depth":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MILLRACE_PARAMS_FILE": path, "MILLRACE_CHECKPOINT_FILE": path + ".gone"}
	p := open(strings.NewReader(""), io.Discard, func(name string) string { return env[name] })
	var params struct{ Depth int }
	if err := p.Params(&params); err != nil || params.Depth != 3 {
		t.Errorf("the parameters are %+v, %v", params, err)
	}
	if err := p.Last(&params); err == nil || !strings.Contains(err.Error(), "MILLRACE_CHECKPOINT_FILE") {
		t.Errorf("a file that is not there: %v", err)
	}
}
