package promises

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"millrace/integration/harness"
)

// curls sends the requests that pages show as curl commands, so that a test needs no curl.
type curls struct {
	p      *harness.Place
	expand *strings.Replacer
}

func curlsOf(p *harness.Place) *curls {
	p.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(p.Path("data/" + name))
		if err != nil {
			p.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	return &curls{p, strings.NewReplacer("$API", read("http.url")+"/api/v1", "$AUTH", "Authorization: Bearer "+read("http.token"))}
}

var shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// requestOf reads a line of curl: the flags that pages use, and no others.
func (c *curls) requestOf(line string) (r *http.Request, problem string) {
	method, body, at := http.MethodGet, "", ""
	header := http.Header{}
	words := shellWord.FindAllString(line, -1)[1:]
	next := func(i *int) string {
		if *i++; *i < len(words) {
			return words[*i]
		}
		return ""
	}
	for i := range words {
		word := words[i]
		if strings.HasPrefix(word, "'") {
			words[i] = strings.Trim(word, "'")
		} else {
			words[i] = c.expand.Replace(strings.Trim(word, `"`))
		}
	}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "-g", word == "-N":
		case word == "-X":
			method = next(&i)
		case word == "-H":
			name, value, _ := strings.Cut(next(&i), ": ")
			header.Set(name, value)
		case word == "--json":
			body = next(&i)
			header.Set("Content-Type", "application/json")
			if method == http.MethodGet {
				method = http.MethodPost
			}
		case strings.HasPrefix(word, "http://"):
			at = word
		default:
			return nil, "what is " + word + "?"
		}
	}
	r, err := http.NewRequestWithContext(c.p.Context(), method, at, strings.NewReader(body))
	if err != nil {
		return nil, err.Error()
	}
	r.Header = header
	return r, ""
}

// send sends the request of a line and checks that the server accepts it.
func (c *curls) send(line typed) {
	c.p.Helper()
	r, problem := c.requestOf(line.text)
	if problem != "" {
		c.p.Errorf("line %d: %s\n%s", line.line, line.text, problem)
		return
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.p.Fatalf("line %d: %s: %v", line.line, line.text, err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body []byte
	if r.Header.Get("Accept") == "text/event-stream" {
		_, err = answer.Body.Read(make([]byte, 1)) // it goes on for ever
	} else {
		body, err = io.ReadAll(answer.Body)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		c.p.Errorf("line %d: %s\n%s %v\n%s", line.line, line.text, answer.Status, err, body)
	}
}

// The reader of curl lines understands them, and names what it does not understand.
func TestCurlLines(t *testing.T) {
	t.Parallel()
	c := &curls{&harness.Place{TB: t}, strings.NewReplacer("$API", "http://127.0.0.1:1/api/v1", "$AUTH", "Authorization: Bearer x")}
	for line, want := range map[string]string{
		`curl -H "$AUTH" $API/tasks`:                                "GET /api/v1/tasks Bearer x ",
		`curl -g "$API/tasks?labels[a]=b"`:                          "GET /api/v1/tasks  ",
		`curl -H "$AUTH" -X PUT $API/tasks/1 --json '{"a":"$API"}'`: `PUT /api/v1/tasks/1 Bearer x {"a":"$API"}`,
		`curl $API/tasks --json '{}'`:                               "POST /api/v1/tasks  {}",
		`curl -k $API/tasks`:                                        "what is -k?",
	} {
		r, got := c.requestOf(line)
		if r != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			got = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
