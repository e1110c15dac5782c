package ipc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestParse checks for each line whether it is a message; all others are log text.
func TestParse(t *testing.T) {
	big := `"` + strings.Repeat("x", MaxResult) + `"`
	for _, c := range []struct {
		line    string
		typ     string // "" for log text
		payload string
	}{
		{`{"type":"STATUS","payload":{"message":"half way","progress":0.5}}`, "STATUS", `{"message":"half way","progress":0.5}`},
		{`{"type":"STATUS","payload":"half way"}`, "STATUS", `"half way"`},
		{`{"type":"STATUS","payload":{"progress":1,"rows":[1,{"a":"]}"}]}}`, "STATUS", `{"progress":1,"rows":[1,{"a":"]}"}]}`},
		{"\t {\"payload\" : {} , \"type\" : \"STATUS\"} \t", "STATUS", `{}`},
		{`{"v":1,"id":"a\"b","ts":null,"type":"STATUS","payload":{}}`, "STATUS", `{}`},
		{`{"type":"STATUS","payload":{"progress":1.01}}`, "", ""},
		{`{"type":"STATUS","payload":{"progress":-1}}`, "", ""},
		{`{"type":"STATUS","payload":{"progress":"0.5"}}`, "", ""},
		{`{"type":"STATUS","payload":{"progress":1e999}}`, "", ""},
		{`{"type":"STATUS","payload":7}`, "", ""},
		{`{"type":"STATUS","payload":null}`, "", ""},
		{`{"type":"STATUS"}`, "", ""},

		{`{"type":"ERROR","payload":{"message":"no route","class":"network","retryable":true}}`, "ERROR", `{"message":"no route","class":"network","retryable":true}`},
		{`{"type":"ERROR","payload":"no route"}`, "ERROR", `"no route"`},
		{`{"type":"ERROR","payload":{"class":"network"}}`, "", ""},
		{`{"type":"ERROR","payload":{"message":"x","retryable":"yes"}}`, "", ""},
		{`{"type":"ERROR","payload":""}`, "", ""},

		{`{"type":"INSERT_DATA","payload":{"url":"a"}}`, "INSERT_DATA", `{"url":"a"}`},
		{`{"type":"INSERT_DATA","payload":[{"url":"a"}, null ,{"url":"b"}]}`, "INSERT_DATA", `[{"url":"a"}, null ,{"url":"b"}]`},
		{`{"type":"INSERT_DATA","payload":[]}`, "INSERT_DATA", `[]`},
		{`{"type":"INSERT_DATA","payload":null}`, "INSERT_DATA", `null`},
		{`{"type":"INSERT_DATA"}`, "INSERT_DATA", ``},
		{`{"type":"INSERT_DATA","payload":[1,2]}`, "", ""},
		{`{"type":"INSERT_DATA","payload":"a"}`, "", ""},
		{`{"type":"INSERT_DATA","payload":false}`, "", ""},

		{`{"type":"RESULT","payload":42}`, "RESULT", `42`},
		{`{"type":"RESULT","payload":null}`, "RESULT", `null`},
		{`{"type":"RESULT","payload":` + big[:MaxResult-1] + `"}`, "RESULT", big[:MaxResult-1] + `"`},
		{`{"type":"RESULT"}`, "", ""},

		{`{"type":"PROGRESS","payload":0.25}`, "PROGRESS", `0.25`},
		{`{"type":"PROGRESS","payload":{"progress":1,"message":"done"}}`, "PROGRESS", `{"progress":1,"message":"done"}`},
		{`{"type":"PROGRESS","payload":{"done":3,"total":4}}`, "PROGRESS", `{"done":3,"total":4}`},
		{`{"type":"PROGRESS","payload":{"done":3,"total":0}}`, "", ""},
		{`{"type":"PROGRESS","payload":1.5}`, "", ""},
		{`{"type":"PROGRESS","payload":{}}`, "", ""},
		{`{"type":"PROGRESS"}`, "", ""},

		{`{"type":"METRIC","payload":{"name":"pages","value":7}}`, "METRIC", `{"name":"pages","value":7}`},
		{`{"type":"METRIC","payload":{"pages":7,"value":1.5}}`, "METRIC", `{"pages":7,"value":1.5}`},
		{`{"type":"METRIC","payload":{"pages":"7"}}`, "", ""},
		{`{"type":"METRIC","payload":{}}`, "", ""},
		{`{"type":"METRIC","payload":{"":1}}`, "", ""},
		{`{"type":"METRIC","payload":7}`, "", ""},

		{`{"type":"LOG","payload":{"level":"WARNING","message":"slow","fields":{"ms":900}}}`, "LOG", `{"level":"WARNING","message":"slow","fields":{"ms":900}}`},
		{`{"type":"LOG","payload":"slow"}`, "LOG", `"slow"`},
		{`{"type":"LOG","payload":{"level":"loud","message":"x"}}`, "", ""},
		{`{"type":"LOG","payload":{"message":"x","fields":[1]}}`, "", ""},

		{`{"type":"HEARTBEAT"}`, "HEARTBEAT", ``},
		{`{"type":"READY","payload":{"any":1}}`, "READY", `{"any":1}`},
		{`{"type":"EXTEND","payload":{"by":"10m"}}`, "EXTEND", `{"by":"10m"}`},
		{`{"type":"EXTEND","payload":600}`, "EXTEND", `600`},
		{`{"type":"EXTEND","payload":{"by":-1}}`, "", ""},
		{`{"type":"EXTEND","payload":1e300}`, "", ""},
		{`{"type":"EXTEND","payload":{}}`, "", ""},
		{`{"type":"EXTEND"}`, "", ""},
		{`{"type":"CHECKPOINT","payload":{"page":7}}`, "CHECKPOINT", `{"page":7}`},
		{`{"type":"CHECKPOINT"}`, "", ""},
		{`{"type":"SPAWN","payload":{"key":"a","job":"crawl"}}`, "SPAWN", `{"key":"a","job":"crawl"}`},
		{`{"type":"SPAWN","payload":[]}`, "", ""},
		{`{"type":"ERROR","payload":{"message":"busy","retry_after":"30s"}}`, "ERROR", `{"message":"busy","retry_after":"30s"}`},
		{`{"type":"ERROR","payload":{"message":"busy","retry_after":30}}`, "ERROR", `{"message":"busy","retry_after":30}`},
		{`{"type":"ERROR","payload":{"message":"busy","retry_after":"soon"}}`, "", ""},

		{`{"v":2,"type":"HEARTBEAT"}`, "", ""},
		{`{"v":null,"type":"HEARTBEAT"}`, "HEARTBEAT", ``},

		{`{"type":"STATUS","payload":1,"payload":{}}`, "STATUS", `{}`},
		{`{"type":"STATUS","type":"NEWS","payload":{}}`, "", ""},
		{`{"type":"CANCEL","payload":{"reason":"no"}}`, "", ""}, // goes the other way
		{`{"type":"status","payload":{}}`, "", ""},
		{`{"type":["STATUS"],"payload":{}}`, "", ""},
		{`{"level":"info","msg":"\"type\""}`, "", ""},
		{`{"note":{"type":"STATUS"},"payload":{}}`, "", ""},
		{`{"type":"STATUS","payload":{}`, "", ""},
		{`{"type":"STATUS","payload":{}} {}`, "", ""},
		{`{"type":"STATUS","payload":` + strings.Repeat("[", 20_000), "", ""},
		{`["type","STATUS"]`, "", ""},
		{"", "", ""},
		{"{\"type\":\"RESULT\",\"payload\":\"caf\xe9\"}", "RESULT", `"caf` + "\uFFFD" + `"`},
	} {
		m, _, ok := parse([]byte(c.line))
		if ok != (c.typ != "") || m.Type != c.typ || string(m.Payload) != c.payload {
			t.Errorf("parse(%.80s) = %v %s %.80s, want %s %.80s", c.line, ok, m.Type, m.Payload, c.typ, c.payload)
		}
	}
}

// TestTooMuch: a message that carries too much is still a message, without its payload.
func TestTooMuch(t *testing.T) {
	big := `"` + strings.Repeat("x", MaxResult) + `"`
	figures := "{"
	for i := range MaxMetrics + 1 {
		figures += fmt.Sprintf(`"f%d":1,`, i)
	}
	for _, c := range []struct{ line, typ, excess string }{
		{`{"type":"RESULT","id":"r","payload":` + big + `}`, "RESULT", "it has 65538 bytes, want at most 65536"},
		{`{"type":"CHECKPOINT","id":"r","payload":` + big + `}`, "CHECKPOINT", "it has 65538 bytes, want at most 65536"},
		{`{"type":"SPAWN","id":"r","payload":{"key":"` + strings.Repeat("k", MaxName+1) + `"}}`, "SPAWN", "the key has 129 bytes, want at most 128"},
		{`{"type":"METRIC","id":"r","payload":{"` + strings.Repeat("m", MaxName+1) + `":1}}`, "METRIC", "the name of a figure has 129 bytes, want at most 128"},
		{`{"type":"METRIC","id":"r","payload":` + strings.TrimSuffix(figures, ",") + `}}`, "METRIC", "it has 65 figures, want at most 64"},
	} {
		m, _, ok := parse([]byte(c.line))
		if !ok || m.Type != c.typ || m.ID != "r" || m.Payload != nil || m.Excess != c.excess {
			t.Errorf("parse(%.40s) = %v %+v, want %s: %s", c.line, ok, m, c.typ, c.excess)
		}
	}
}

// TestHead: the type and the id of a line that is cut off.
func TestHead(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"INSERT_DATA","id":7,"payload":[{"a":1}`:             "INSERT_DATA 7",
		` {"id":"a","v":1,"ts":[1,{"type":"x"}],"type":"RESULT","pay`: "RESULT a",
		`{"payload":{"a":"b"},"type":"RESULT"`:                        "",
		`{"payload":{"a":"b"},"type":"RESULT",`:                       "RESULT ",
		`{"type":"RESULT","payload":1}`:                               "",
		`{"type":"RESULT"; "payload":"`:                               "",
		`{"type":"RESULT","type":"NEWS","payload":"`:                  "",
		`{"type":"RESULT","v":2,"payload":"`:                          "",
		`{"payload":"{\"type\":\"RESULT\"`:                            "",
		`{"type":"INSERT_DATA","payload":[1]} {"type":`:               "",
		`{"type":"LOG","payload":` + strings.Repeat("[", 20_000):      "",
		`{`:             "",
		`{"type"`:       "",
		`{"type":`:      "",
		`{"type":"LOG"`: "",
		`{"type":"LOG","payload":"` + strings.Repeat("é", 10) + "\xc3": "LOG ",
	} {
		m, _, ok := head([]byte(line)[:len(line):len(line)])
		got := ""
		if ok {
			got = m.Type + " " + m.ID
		}
		if got != want {
			t.Errorf("head(%.60s) = %q, want %q", line, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	s, err := Message{Type: TypeStatus, Payload: json.RawMessage(`{"message":"half way","progress":0.5,"more":1}`)}.Status()
	if err != nil || s.Message != "half way" || s.Progress == nil || *s.Progress != 0.5 {
		t.Errorf("object: %+v, %v", s, err)
	}
	s, err = Message{Type: TypeStatus, Payload: json.RawMessage(`"begun"`)}.Status()
	if err != nil || s.Message != "begun" || s.Progress != nil {
		t.Errorf("string: %+v, %v", s, err)
	}
	if _, err = (Message{Type: TypeStatus, Payload: json.RawMessage(`{"progress":2}`)}).Status(); err == nil {
		t.Error("a progress of 2 is accepted")
	}
}

func TestFailure(t *testing.T) {
	f, err := Message{Type: TypeError, Payload: json.RawMessage(`{"message":"no route","class":"network","retryable":false}`)}.Failure()
	if err != nil || f.Message != "no route" || f.Class != "network" || f.Retryable == nil || *f.Retryable {
		t.Errorf("object: %+v, %v", f, err)
	}
	f, err = Message{Type: TypeError, Payload: json.RawMessage(`"no route"`)}.Failure()
	if err != nil || f.Message != "no route" || f.Retryable != nil {
		t.Errorf("string: %+v, %v", f, err)
	}
	if _, err = (Message{Type: TypeError, Payload: json.RawMessage(`[]`)}).Failure(); err == nil {
		t.Error("an array is accepted")
	}
}

func TestRecords(t *testing.T) {
	for _, c := range []struct{ payload, want string }{
		{``, ``},
		{`null`, ``},
		{`[]`, ``},
		{`{"a":1}`, `{"a":1}`},
		{`[ {"a":[1,2]} , null, {"b":"},{"} ]`, `{"a":[1,2]}|{"b":"},{"}`},
	} {
		records, err := Message{Type: TypeInsertData, Payload: json.RawMessage(c.payload)}.Records()
		var got []string
		for _, r := range records {
			got = append(got, string(r))
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("records of %s: %q, %v", c.payload, got, err)
		}
	}
	for _, payload := range []string{`1`, `[1]`, `"a"`, `[{},[]]`} {
		if _, err := (Message{Type: TypeInsertData, Payload: json.RawMessage(payload)}).Records(); err == nil {
			t.Errorf("%s is accepted", payload)
		}
	}
}

func TestEncode(t *testing.T) {
	line, err := Encode(Cancel("a \"person\"\nasked", time.Date(2024, 2, 3, 4, 5, 6, 7000000, time.FixedZone("", 3600))))
	want := `{"v":1,"type":"CANCEL","payload":{"reason":"a \"person\"\nasked","deadline":"2024-02-03T03:05:06.007Z"}}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("%s, %v\nwant %s", line, err, want)
	}
	if line, err = Encode(Message{Type: "PING"}); err != nil || string(line) != `{"v":1,"type":"PING"}`+"\n" {
		t.Errorf("without payload: %s, %v", line, err)
	}
	if line, err = Encode(Message{Type: "PING", Payload: json.RawMessage("{\n\"a\":\n1}")}); err != nil || string(line) != `{"v":1,"type":"PING","payload":{"a":1}}`+"\n" {
		t.Errorf("payload of several lines: %s, %v", line, err)
	}
	if _, err = Encode(Message{Type: "PING", Payload: json.RawMessage(`{`)}); err == nil {
		t.Error("a broken payload is accepted")
	}
}

func TestIdentity(t *testing.T) {
	for given, want := range map[string]string{`"a"`: "a", `7`: "7", `-1.5`: "-1.5", `null`: "", `{"a":1}`: "", `"` + strings.Repeat("x", MaxID+1) + `"`: ""} {
		m, _, ok := parse([]byte(`{"type":"HEARTBEAT","id":` + given + `}`))
		if !ok || m.ID != want {
			t.Errorf("id %.40s is %q, %v; want %q", given, m.ID, ok, want)
		}
	}
}

func TestPayloads(t *testing.T) {
	read := func(line string) Message {
		m, _, ok := parse([]byte(line))
		if !ok {
			t.Fatalf("%s is no message", line)
		}
		return m
	}
	if p, err := read(`{"type":"PROGRESS","payload":{"done":3,"total":4,"message":"pages"}}`).Progress(); err != nil || p != (Progress{0.75, "pages"}) {
		t.Errorf("progress %+v, %v", p, err)
	}
	if p, err := read(`{"type":"PROGRESS","payload":{"done":9,"total":4}}`).Progress(); err != nil || p.Share != 1 {
		t.Errorf("more than all: %+v, %v", p, err)
	}
	if m, err := read(`{"type":"METRIC","payload":{"name":"pages","value":7}}`).Metrics(); err != nil || len(m) != 1 || m["pages"] != 7 {
		t.Errorf("metric %v, %v", m, err)
	}
	if m, err := read(`{"type":"METRIC","payload":{"pages":7,"errors":0}}`).Metrics(); err != nil || len(m) != 2 || m["pages"] != 7 {
		t.Errorf("metrics %v, %v", m, err)
	}
	if e, err := read(`{"type":"LOG","payload":{"level":"CRITICAL","message":"x","fields":null}}`).Entry(); err != nil || e.Level != "error" || e.Fields != nil {
		t.Errorf("log %+v, %v", e, err)
	}
	if d, err := read(`{"type":"EXTEND","payload":{"by":1.5}}`).Extension(); err != nil || d != 1500*time.Millisecond {
		t.Errorf("extension %v, %v", d, err)
	}
	if s, err := read(`{"type":"SPAWN","payload":{"key":"k","job":"j"}}`).Spawn(); err != nil || s.Key != "k" || string(s.Task) != `{"key":"k","job":"j"}` {
		t.Errorf("spawn %+v, %v", s, err)
	}
	if f, err := read(`{"type":"ERROR","payload":{"message":"busy","retry_after":2}}`).Failure(); err != nil || time.Duration(f.RetryAfter) != 2*time.Second {
		t.Errorf("failure %+v, %v", f, err)
	}
}

// TestFlat: the form of Cronicle's plugins, and logs that only look like it.
func TestFlat(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"progress":0.5}`, `PROGRESS {"message":"","progress":0.5}`},
		{`{"progress":0.5,"label":"copy"}`, `PROGRESS {"message":"copy","progress":0.5}`},
		{`{"progress":0.5,"perf":{"db":1.2}}`, `PROGRESS {"message":"","progress":0.5}|METRIC {"db":1.2}`},
		{`{"complete":1,"code":0}`, `PROGRESS 1`},
		{`{"complete":true,"description":"all there"}`, `STATUS "all there"`},
		{`{"complete":1,"code":7,"description":"no disk"}`, `ERROR {"class":"task","fatal":true,"message":"no disk"}`},
		{`{"complete":1,"code":"ENOENT"}`, `ERROR {"class":"task","fatal":true,"message":"the program says that it has failed, with code \"ENOENT\""}`},
		{`{"progress":0.5,"msg":"a program's own log"}`, ``},
		{`{"progress":50}`, ``},
		{`{"progress":"0.5"}`, ``},
		{`{"code":1,"description":"no word of an end"}`, ``},
		{`{"table":{"rows":[]}}`, ``},
		{`["progress"]`, ``},
		{`{"progress":0.5`, ``},
	} {
		var got []string
		for _, m := range parseFlat([]byte(c.line)).all {
			got = append(got, m.Type+" "+string(m.Payload))
			if m.check() != nil {
				t.Errorf("flat(%s) makes %s %s, which is no message", c.line, m.Type, m.Payload)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("flat(%s) = %q, want %q", c.line, got, c.want)
		}
	}
}

func TestTell(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Ping(), `{"v":1,"type":"PING"}`},
		{Ack(Receipt{ID: "7", OK: true, Task: "01J"}), `{"v":1,"type":"ACK","payload":{"id":"7","ok":true,"task":"01J"}}`},
		{Ack(Receipt{ID: "7", Error: "no"}), `{"v":1,"type":"ACK","payload":{"id":"7","ok":false,"error":"no"}}`},
		{Init(Task{Task: "01J", Attempt: 2, Epoch: 9, Node: "w", Queue: "q", Time: at, Checkpoint: json.RawMessage(`{"page":7}`)}),
			`{"v":1,"type":"INIT","payload":{"task":"01J","attempt":2,"epoch":9,"node":"w","queue":"q","time":"2026-03-01T12:00:00Z","checkpoint":{"page":7}}}`},
	} {
		line, err := Encode(c.m)
		if err != nil || string(line) != c.want+"\n" {
			t.Errorf("%s, %v\nwant %s", line, err, c.want)
		}
	}
}
