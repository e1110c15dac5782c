package millrace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/ipc"
)

// TestMain also makes this program the one of the conformance suite.
func TestMain(m *testing.M) {
	if os.Getenv("CONFORMANCE") != "" {
		if err := conforming(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

type resize struct {
	URL   string `json:"url"`
	Width int    `json:"width"`
}

// conforming is the program that every library writes for the suite.
func conforming() error {
	type none struct{}
	fails := func(name string, err error) Handler {
		return Handle(name, func(context.Context, none) (any, error) { return nil, err })
	}
	return Serve(
		Handle("echo", func(_ context.Context, p map[string]any) (any, error) { return p, nil }),
		Handle("typed", func(_ context.Context, p resize) (resize, error) {
			if p.Width == 0 {
				p.Width = 100
			}
			if p.URL == "" {
				return p, &FailError{Failure{Message: "params: url is missing", Class: "user", Retryable: new(bool)}}
			}
			return p, nil
		}),
		Handle("plain", func(context.Context, none) (any, error) {
			fmt.Println("out")
			fmt.Fprintln(os.Stderr, "err")
			fmt.Print("half")
			return nil, nil
		}),
		fails("fail", errors.New("no luck")),
		fails("final", fmt.Errorf("wrapped: %w", &FailError{Failure{Message: "never", Class: "user", Retryable: new(bool)}})),
		fails("later", &FailError{Failure{Message: "busy", Class: "network", RetryAfter: "30s"}}),
		Handle("says", func(ctx context.Context, _ none) (any, error) {
			p := FromContext(ctx)
			var last struct {
				Next int `json:"next"`
			}
			if err := p.Last(&last); err != nil {
				return nil, err
			}
			last.Next++
			t, _ := p.Init()
			return map[string]any{"id": t.Task, "attempt": t.Attempt}, errors.Join(p.Status("up"), p.Progress(1, 4), p.Data(map[string]int{"n": 1}), p.Log("warn", "slow", map[string]any{"ms": 9}), p.Checkpoint(last))
		}),
		Handle("asks", func(ctx context.Context, _ none) (any, error) {
			child, err := FromContext(ctx).Spawn(ctx, map[string]any{"key": "a", "argv": []string{"true"}})
			if err != nil {
				return nil, err
			}
			_, err = FromContext(ctx).Spawn(ctx, map[string]any{"job": "none"})
			return map[string]string{"child": child, "refused": strings.TrimPrefix(err.Error(), "SPAWN: refused: ")}, nil
		}),
		Handle("waits", func(ctx context.Context, _ none) (any, error) {
			if err := FromContext(ctx).Status("waiting"); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return "cancelled: " + context.Cause(ctx).Error(), nil
		}),
		Handle("large", func(context.Context, none) (any, error) { return strings.Repeat("x", 64<<10), nil }),
		Handle("reads", func(context.Context, none) (any, error) { return "", nil }),
		Handle("steps", func(ctx context.Context, _ none) (_ any, err error) {
			is := map[string]any{}
			if is["id"], err = NewID(ctx); err != nil {
				return nil, err
			}
			at, err := Now(ctx)
			if err != nil {
				return nil, err
			}
			is["year"] = at.Year()
			if is["paid"], err = Step(ctx, "charge", map[string]any{"max": 2}, func(context.Context) (any, error) { return map[string]int{"paid": 7}, nil }); err != nil {
				return nil, err
			}
			if err := Sleep(ctx, "grace", time.Hour); err != nil {
				return nil, err
			}
			if is["who"], err = WaitFor[string](ctx, "approval", 2*time.Hour, map[string]any{"type": "string", "max": 40}); err != nil {
				return nil, err
			}
			if is["child"], err = Call[int](ctx, "thumb", map[string]any{"handler": "resize", "params": map[string]int{"width": 1}}); err != nil {
				return nil, err
			}
			is["way"], err = Version(ctx, "tax", 2)
			return is, err
		}),
		Handle("missteps", func(ctx context.Context, _ none) (any, error) {
			_, err := Step(ctx, "charge", map[string]any{"max": 3, "min": "1s"}, func(context.Context) (int, error) {
				return 0, &FailError{Failure{Message: "no luck", RetryAfter: "1s"}}
			})
			step, ok := errors.AsType[*StepError](err)
			if !ok {
				return nil, err
			}
			failed := []any{step.Message, step.Tries}
			if _, err = WaitFor[any](ctx, "approval", 0, map[string]any{"name": "url", "type": "string"}, map[string]any{"name": "width", "type": "integer", "optional": true}); errors.Is(err, ErrNoSignal) {
				failed = append(failed, "no signal")
			}
			both, err := CallAll(ctx, "both", map[string]any{"handler": "a"}, map[string]any{"job": "b"})
			if err != nil {
				return nil, err
			}
			for i := range both {
				var is any
				if err := both[i].Read(&is); errors.As(err, &step) {
					is = step.Message
				}
				failed = append(failed, is)
			}
			err = Sleep(ctx, "", time.Second)
			return append(failed, strings.TrimPrefix(err.Error(), "STEP: refused: ")), nil
		}),
	)
}

// TestConformance plays the worker's side for the same program in each language: every line is that
// of a conversation, after the arrow what is told (<) or must be heard (>).
func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{"go": {self}, "python": {"python3", "../python/conformance.py"}, "node": {"node", "../node/conformance.js"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(argv[0]); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Logf("NOT TESTED: %v", err)
				return
			}
			play(t, name, argv)
		})
	}
}

const conversation = `
> HELLO {"library":"LANGUAGE","protocol":1,"tasks":["echo","typed","plain","fail","final","later","says","asks","waits","large","reads","steps","missteps"]}
# between tasks it answers, without a key that counts
< PING
> HEARTBEAT
# one task after the other, each with its own key
< INIT {"handler":"echo","params":{"a":[1,"ü",null]}}
> DONE {"result":{"a":[1,"ü",null]}}
< INIT {"handler":"typed","params":{"url":"u","width":7}}
> DONE {"result":{"url":"u","width":7}}
< INIT {"handler":"typed","params":{"url":"u"}}
> DONE {"result":{"url":"u","width":100}}
# parameters that do not fit are the fault of whoever has submitted them
< INIT {"handler":"typed","params":{}}
> DONE {"error":{"class":"user","message":"params: …","retryable":false}}
# text stays text, and a line without its end spoils no message
< INIT {"handler":"plain"}
> text out
> text half
> DONE {}
# failures
< INIT {"handler":"fail"}
> DONE {"error":{"message":"…no luck"}}
< INIT {"handler":"final"}
> DONE {"error":{"class":"user","message":"never","retryable":false}}
< INIT {"handler":"later"}
> DONE {"error":{"class":"network","message":"busy","retry_after":"30s"}}
< INIT {"handler":"large"}
> DONE {"error":{"message":"…","retryable":false}}
< INIT {"handler":"nobody has this"}
> DONE {"error":{"message":"…"}}
# reports, and a checkpoint of an earlier attempt
< INIT {"handler":"says","task":"01J","attempt":2,"checkpoint":{"next":4}}
> STATUS "up"
> PROGRESS {"done":1,"total":4}
> INSERT_DATA {"n":1}
> LOG {"fields":{"ms":9},"level":"warn","message":"slow"}
> CHECKPOINT {"next":5}
> DONE {"result":{"attempt":2,"id":"01J"}}
< INIT {"handler":"says","task":"01K","attempt":1}
> STATUS "up"
> PROGRESS {"done":1,"total":4}
> INSERT_DATA {"n":1}
> LOG {"fields":{"ms":9},"level":"warn","message":"slow"}
> CHECKPOINT {"next":1}
> DONE {"result":{"attempt":1,"id":"01K"}}
# requests, and their answers
< INIT {"handler":"asks"}
> SPAWN {"argv":["true"],"key":"a"}
< ACK {"ok":true,"task":"01C"}
> SPAWN {"job":"none"}
< ACK {"ok":false,"error":"no such job"}
> DONE {"result":{"child":"01C","refused":"no such job"}}
# what a later version may say is passed over, also during a task
< STEPS {"some":"thing"}
< INIT {"handler":"waits"}
> STATUS "waiting"
< REMEMBER [1]
< PING
> HEARTBEAT
< CANCEL {"reason":"a person asked","deadline":"2026-01-01T00:00:00Z"}
> DONE {"result":"cancelled: a person asked"}
# a cancel is of one task
< INIT {"handler":"waits"}
> STATUS "waiting"
< CANCEL {"reason":"again","deadline":"2026-01-01T00:00:00Z"}
> DONE {"result":"cancelled: again"}
# the messages are nobody else's to read
< INIT {"handler":"reads"}
> DONE {"result":""}
# steps: what is remembered is given, what is not is done, and what waits ends the attempt
< INIT {"handler":"steps"}
> STEP {"kind":"id"}
< ACK {"ok":true,"step":{"known":true,"value":"01D"}}
> STEP {"kind":"now"}
< ACK {"ok":true,"step":{"known":true,"value":"2026-03-01T12:00:00.123456789Z"}}
> STEP {"kind":"step","name":"charge","retry":{"max":2}}
< ACK {"ok":true,"step":{}}
> STEPPED {"result":{"paid":7}}
< ACK {"ok":true,"step":{}}
> STEP {"for":3600,"kind":"sleep","name":"grace"}
< ACK {"ok":true,"step":{"suspended":true}}
> DONE {}
< INIT {"handler":"steps"}
> STEP {"kind":"id"}
< ACK {"ok":true,"step":{"known":true,"value":"01D"}}
> STEP {"kind":"now"}
< ACK {"ok":true,"step":{"known":true,"value":"2026-03-01T12:00:00Z"}}
> STEP {"kind":"step","name":"charge","retry":{"max":2}}
< ACK {"ok":true,"step":{"known":true,"value":{"paid":8}}}
> STEP {"for":3600,"kind":"sleep","name":"grace"}
< ACK {"ok":true,"step":{"known":true}}
> STEP {"form":[{"max":40,"type":"string"}],"kind":"await","name":"approval","timeout":7200}
< ACK {"ok":true,"step":{"known":true,"value":"ann"}}
> STEP {"kind":"call","name":"thumb","of":[{"handler":"resize","params":{"width":1}}]}
< ACK {"ok":true,"step":{"known":true,"value":[{"task":"01C","state":"finished","result":5}]}}
> STEP {"is":2,"kind":"version","name":"tax"}
< ACK {"ok":true,"step":{"known":true,"value":0}}
> DONE {"result":{"child":5,"id":"01D","paid":{"paid":8},"way":0,"who":"ann","year":2026}}
# a step that fails waits for its next try, or has failed for good
< INIT {"handler":"missteps"}
> STEP {"kind":"step","name":"charge","retry":{"max":3,"min":"1s"}}
< ACK {"ok":true,"step":{}}
> STEPPED {"error":{"message":"no luck","retry_after":"1s"}}
< ACK {"ok":true,"step":{"failed":"no luck","tries":4}}
> STEP {"form":[{"name":"url","type":"string"},{"name":"width","optional":true,"type":"integer"}],"kind":"await","name":"approval"}
< ACK {"ok":true,"step":{"known":true,"failed":"too late"}}
> STEP {"kind":"call","name":"both","of":[{"handler":"a"},{"job":"b"}]}
< ACK {"ok":true,"step":{"known":true,"value":[{"task":"01A","state":"finished"},{"task":"01B","state":"error","reason":"exit"}]}}
> STEP {"for":1,"kind":"sleep","name":""}
< ACK {"ok":false,"error":"another step than before"}
> DONE {"result":["no luck",4,"no signal",null,"task 01B is error: exit","another step than before"]}
< BYE
`

func play(t *testing.T, language string, argv []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "CONFORMANCE=1", "MILLRACE_RESIDENT=1", "MILLRACE_STDIN=open", "MILLRACE_KEY=of the program", "PYTHONDONTWRITEBYTECODE=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &conversing{T: t, in: in, out: bufio.NewReader(out), key: "of the program"}
	for line := range strings.Lines(strings.ReplaceAll(conversation, "LANGUAGE", language)) {
		direction, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch direction {
		case "<":
			c.tell(what)
		case ">":
			c.hear(what)
		}
		if t.Failed() {
			cancel()
			break
		}
	}
	if rest, err := io.ReadAll(c.out); len(bytes.TrimSpace(rest)) > 0 || err != nil {
		t.Errorf("after BYE it said %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if said := errs.String(); !strings.Contains(said, "err\n") || t.Failed() {
		t.Logf("standard error:\n%s", said)
	}
}

// conversing is the worker's side of a conversation.
type conversing struct {
	*testing.T
	in    io.Writer
	out   *bufio.Reader
	tasks int
	key   string
	id    string // of the last message that wants an answer
}

func (c *conversing) tell(what string) {
	typ, payload, _ := strings.Cut(what, " ")
	with := func(field, value string) {
		payload = fmt.Sprintf(`{%q:%q,%s`, field, value, strings.TrimPrefix(payload, "{"))
	}
	switch typ {
	case ipc.TypeInit:
		c.tasks++
		c.key = fmt.Sprintf("of task %d", c.tasks)
		with("key", c.key)
	case ipc.TypeAck:
		with("id", c.id)
	}
	if payload == "" {
		payload = "null"
	}
	if _, err := fmt.Fprintf(c.in, `{"v":1,"type":%q,"payload":%s}`+"\n", typ, payload); err != nil {
		c.Errorf("told %s: %v", what, err)
	}
}

func (c *conversing) hear(want string) {
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.Errorf("instead of %s: %v", want, err)
			return
		}
		if line = strings.TrimSpace(line); line != "" { // one may stand before a DONE
			if got := c.read(line); !matches(got, want) {
				c.Errorf("it said %s\nwant    %s", got, want)
			}
			return
		}
	}
}

// read returns a line in the form of the conversation.
func (c *conversing) read(line string) string {
	var m struct {
		V             int
		Type, Key, ID string
		Payload       any
	}
	if json.Unmarshal([]byte(line), &m) != nil {
		return "text " + line
	}
	if m.V != ipc.Version || m.Key != c.key && m.Type != ipc.TypeHeartbeat {
		c.Errorf("%s: version %d and key %q, want %d and %q", line, m.V, m.Key, ipc.Version, c.key)
	}
	c.id = m.ID
	if m.Payload == nil {
		return m.Type
	}
	var payload strings.Builder
	encode := json.NewEncoder(&payload)
	encode.SetEscapeHTML(false)
	if err := encode.Encode(m.Payload); err != nil {
		c.Error(err)
	}
	return m.Type + " " + strings.TrimSpace(payload.String())
}

// matches tells whether got is want, in which … stands for any text.
func matches(got, want string) bool {
	before, after, any := strings.Cut(want, "…")
	return got == want || any && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)
}
