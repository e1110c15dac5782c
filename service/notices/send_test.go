package notices

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
)

func message() *Message {
	return &Message{ID: "01JD6Z8V3M0QK4T7W2X9Y5ABCD", Kind: Failure, Title: "backup failed", Cause: "exit 7", Exit: new(7), Attempts: 3, Lines: []string{"one", "two"}, signed: noon}
}

func webhook(t *testing.T, path string, serve http.HandlerFunc) (*Target, *Message) {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	to := &Target{Webhook: &Text{Text: s.URL + path}, Secret: &Text{Text: "hush"}}
	if err := to.validate(); err != nil {
		t.Fatal(err)
	}
	m := message()
	to.fill(m)
	return to, m
}

func TestWebhooksAreSigned(t *testing.T) {
	for _, slack := range []bool{false, true} {
		to, m := webhook(t, "/", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			at := strings.TrimPrefix(strings.Split(r.Header.Get("Millrace-Signature"), ",")[0], "t=")
			if want := "t=" + at + ",v1=" + Sign("hush", at, body); r.Header.Get("Millrace-Signature") != want || r.Header.Get("Millrace-Notice") == "" {
				t.Errorf("the headers are %v, want the signature %s", r.Header, want)
			}
			var is map[string]any
			if err := json.Unmarshal(body, &is); err != nil || !strings.Contains(is["text"].(string), "backup failed") || slack != (len(is) == 2 && is["blocks"] != nil) {
				t.Errorf("the body is %s: %v", body, err)
			}
		})
		if to.Slack = slack; to.post(t.Context(), m) != nil {
			t.Error("it is not sent")
		}
	}
}

// TestSlackShowsWhatItGets holds the text of a failure whose program prints what Slack would obey.
func TestSlackShowsWhatItGets(t *testing.T) {
	m := message()
	m.Lines, m.Link = []string{"<!channel> a & b", "<https://evil.example|Retry>"}, "https://millrace.example/tasks/1"
	m.Actions = []Action{{"retry", "https://millrace.example/act/retry/1-S", true}}
	to := &Target{Webhook: &Text{Text: "x"}, Slack: true}
	if err := to.validate(); err != nil {
		t.Fatal(err)
	}
	to.fill(m)
	want := "backup failed\nexit 7\nExit code 7. Attempts: 3. \n  &lt;!channel&gt; a &amp; b\n  &lt;https://evil.example|Retry&gt;\n" +
		"https://millrace.example/tasks/1\n<https://millrace.example/act/retry/1-S|Retry>"
	if m.Text != want || m.Lines[0] != "<!channel> a & b" {
		t.Errorf("the text is %q, want %q", m.Text, want)
	}
}

// TestBlocksAreBounded holds that Slack takes what it is given, whatever a program prints: it refuses a message of which
// one text is too long or empty.
func TestBlocksAreBounded(t *testing.T) {
	long := strings.Repeat("&<`é", 5000)
	full := message()
	full.Title, full.Cause, full.What, full.Job, full.Node = long, long, long, long, long
	full.Lines, full.Link, full.At = []string{"```", long, long}, "https://millrace.example/tasks/1", noon
	full.Actions = []Action{{"approve", "https://millrace.example/act/approve/1-S", true}, {"reject", "https://millrace.example/" + long, true}, {"reject", "https://millrace.example/act/reject/1-S", true}}
	whole := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "")
	plain := message()
	plain.Title, plain.Cause, plain.Job, plain.Lines, plain.Exit, plain.Attempts = strings.Repeat("é", 5000), strings.Repeat("é", 5000), strings.Repeat("é", 5000), []string{strings.Repeat("é", 5000)}, nil, 1
	for name, c := range map[string]struct {
		m        *Message
		template string
		want     []string
		fields   int
	}{
		"a full one":     {full, "", []string{"header", "section", "section", "section", "section", "actions"}, 5},
		"a long one":     {plain, "", []string{"header", "section", "section", "section"}, 1},
		"a usual one":    {message(), "", []string{"header", "section", "section", "section"}, 2},
		"little":         {&Message{Kind: Test, Title: "This is a test"}, "", []string{"header"}, 0},
		"by a template":  {message(), `*{{.Job}}*{{range .Lines}}{{printf "\n%2000s" .}}{{end}}`, []string{"header", "section", "section"}, 0},
		"one that fails": {message(), "{{.Nothing}}", []string{"header", "section"}, 0},
		"an empty one":   {message(), "{{/* nothing */}}", []string{"header"}, 0},
	} {
		to := &Target{Webhook: &Text{Text: "x"}, Slack: true, Template: c.template}
		if err := to.validate(); err != nil {
			t.Fatal(err)
		}
		to.fill(c.m)
		body, err := c.m.body(true)
		var is struct {
			Text   string
			Blocks []struct {
				Type     string
				Text     struct{ Type, Text string }
				Fields   []struct{ Type, Text string }
				Elements []struct{ URL, Style string }
			}
		}
		if err != nil || json.Unmarshal(body, &is) != nil || is.Text != c.m.Text {
			t.Fatalf("%s: the body is %s: %v", name, body, err)
		}
		var types []string
		for _, b := range is.Blocks {
			types = append(types, b.Type)
			most := map[string]int{"header": 150, "section": 3000}[b.Type]
			if n := utf8.RuneCountInString(b.Text.Text); n > most || n == 0 && b.Type != "actions" && len(b.Fields) == 0 || len(b.Fields) != 0 && len(b.Fields) != c.fields {
				t.Errorf("%s: a %s has %d characters and %d fields", name, b.Type, n, len(b.Fields))
			}
			if b.Text.Type == "mrkdwn" && c.template == "" && strings.Contains(whole.Replace(b.Text.Text), "&") {
				t.Errorf("%s: what stands for a character is cut: %s", name, b.Text.Text)
			}
			for _, f := range b.Fields {
				if n := utf8.RuneCountInString(f.Text); n > 2000 || strings.ContainsAny(f.Text, "<>") || strings.Contains(whole.Replace(f.Text), "&") {
					t.Errorf("%s: a field has %d characters: %.50s", name, n, f.Text)
				}
			}
			if n := strings.Count(b.Text.Text, "```"); n != 0 && (n != 2 || !strings.HasSuffix(b.Text.Text, "```")) {
				t.Errorf("%s: what a program printed ends its frame: %.50s", name, b.Text.Text)
			}
			if b.Text.Type == "mrkdwn" && strings.ContainsAny(strings.ReplaceAll(b.Text.Text, "```", ""), "<>") {
				t.Errorf("%s: Slack obeys %.50s", name, b.Text.Text)
			}
			if b.Type == "actions" && (len(b.Elements) != 3 || b.Elements[1].URL != full.Actions[0].Link || b.Elements[1].Style != "primary" || b.Elements[2].Style != "danger") {
				t.Errorf("%s: the buttons are %+v", name, b.Elements)
			}
		}
		if strings.Join(types, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: the blocks are %q, want %q", name, types, c.want)
		}
	}
}

// printed is a log in which each task has printed a line.
type printed struct {
	answers.Log
	answers.Printed
	line string
}

func (p printed) Printout(context.Context, task.ID, time.Time) (answers.Printout, error) {
	return answers.Printout{Lines: 1, Printed: p}, nil
}

func (p printed) Window(context.Context, int, int) (lead, lines []client.NumberedLine, err error) {
	lines = make([]client.NumberedLine, 1)
	lines[0].Text = p.line
	return nil, lines, nil
}

// TestNoticesAreNotForged holds that neither what a task is called nor what its program says adds a line, or a
// character that a terminal obeys, to a message and to the title of the notice's task.
func TestNoticesAreNotForged(t *testing.T) {
	const forged = "x\r\nApprove: https://evil.example\u2028\x1b[2J\u202eend"
	failed := task.Task{ID: "5", State: task.Error, Since: noon, EndedAt: noon}
	failed.Spec = &job.Spec{Run: &job.Run{Shell: forged}}
	failed.Message = "etl failed (error/exit: " + forged + "); 1 of 1 have ended: 1 error"
	of := ends{tasks: []task.Task{failed}}
	sight := &answers.Sight{View: of, Sums: of, Now: noon, Log: printed{line: forged}}
	s := &Sender{Look: func(ctx context.Context, look func(context.Context, *answers.Sight) error) error {
		return look(ctx, sight)
	}}
	n := &Notice{To: "oncall", Kind: Failure, About: failed.What(), Cause: view.Alike(failed.Message), What: forged}
	m, err := s.compose(t.Context(), "1", n, false)
	if err != nil || m == nil {
		t.Fatalf("it becomes %v: %v", m, err)
	}
	to := &Target{Subject: "x"}
	if err := to.validate(); err != nil {
		t.Fatal(err)
	}
	to.fill(m)
	const plain = "x Approve: https://evil.example ·[2J·end"
	want := plain + " failed\netl failed: " + plain + "\n2026-11-29 12:00:00 UTC.\n" + plain + "\n  x  Approve: https://evil.example··[2J·end"
	if m.Text != want || m.Job != plain {
		t.Errorf("%q is told as %q, want %q", m.Job, m.Text, want)
	}
	is, err := Submission(m.ID, noon, n)
	if err != nil || is.Title != "tell oncall of failure "+plain {
		t.Errorf("the title is %q: %v", is.Title, err)
	}
}

// TestLinesOfMail holds that no line is longer than mail servers take, and that nothing is lost.
func TestLinesOfMail(t *testing.T) {
	text := "short\n" + strings.Repeat("é", 2000) + "\nend"
	got := folded(text)
	for line := range strings.Lines(got) {
		if len(line) > mailLine+1 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	if strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(text, "\n", "") || !strings.HasPrefix(got, "short\né") {
		t.Errorf("the text is %q", got)
	}
}

// TestHostileWebhooks asks addresses that do what they should not. None of them holds the sender, makes it ask
// another address, or has its answer, or its own address, written down as it is.
func TestHostileWebhooks(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(inside.Close)
	for name, serve := range map[string]http.HandlerFunc{
		"fails":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"redirects":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL+"/latest/meta-data", 307) },
		"hangs":       func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"writes long": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400); endless(w, r) },
		"says it": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, "no "+r.URL.Path+" http://"+r.Host+r.URL.Path)
		},
		"drops": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		to, m := webhook(t, "/services/T0K3N-SECRET", serve)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := to.post(ctx, m)
		cancel()
		switch {
		case err == nil:
			t.Errorf("%s: it counts as sent", name)
		case len(err.Error()) > 1000 || strings.Contains(err.Error(), "T0K3N"):
			t.Errorf("%s: the error is %q", name, err)
		}
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
			return
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"the usual one":  {"", "backup failed\nexit 7\nExit code 7. Attempts: 3."},
		"another one":    {"{{.Kind}}: {{.Title}}", "failure: backup failed"},
		"one that fails": {"{{.Nothing}}", "template of this target fails"},
		"a long one":     {`{{range .Lines}}{{printf "%9000s" .}}{{end}}`, "template of this target fails"},
	} {
		to, m := &Target{Subject: "x", Template: c.template}, message()
		if err := to.validate(); err != nil {
			t.Fatal(err)
		}
		if to.fill(m); !strings.Contains(m.Text, c.want) || len(m.Text) > textBytes {
			t.Errorf("%s: the text is %q, want %q in it", name, m.Text, c.want)
		}
	}
}

// TestSecretsStayWhereTheyAre reads a file as an operator writes it.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Setenv("HOOK", "https://hooks.example/T0K3N-SECRET")
	c, err := Load(write("notify.yaml", `
targets:
  oncall: {webhook: {env: HOOK}, secret: {file: `+write("secret", "hush\n")+`}, collect: 0s, every: 15m}
  mail:
    mail: {host: mail.example, from: millrace@example.org, to: [a@example.org], user: millrace, password: {file: `+write("password", "p@ss/word&1\n")+`}}
rules:
  - {on: [failure, node], to: [oncall]}
`))
	if err != nil {
		t.Fatal(err)
	}
	oncall := c.Targets["oncall"]
	if secret, err := oncall.Secret.read(); err != nil || secret != "hush" || oncall.Collect.Std() != 0 || oncall.Every.Std() != 15*time.Minute {
		t.Errorf("oncall is read as %+v: %v", oncall, err)
	}
	address, err := c.Targets["mail"].Mail.url("a@example.org")
	if err != nil || !strings.Contains(address, "requirestarttls=Yes") {
		t.Fatalf("mail is %s: %v", address, err)
	}
	said := conceal(errors.New("535 p@ss/word&1 of "+address+" refused"), address).Error()
	if strings.Contains(said, "word") || !strings.Contains(said, "535") {
		t.Errorf("the error says %q", said)
	}
	for text, want := range map[string]string{
		"targets: {a: {webhok: x}}":                      "webhok",
		"targets: {a: {webhook: {file: x, env: y}}}":     "want a text, {file: PATH} or {env: NAME}",
		"targets: {a: {subject: x}}\nrules: [{to: b}]":   "[2:14]",
		"targets: {a: {subject: x}}\nrules: [{to: [b]}]": `no target "b"`,
		"targets: {a: {subject: x, every: 5}}":           "\"5\" is no duration",
	} {
		if _, err := Load(write("bad.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
