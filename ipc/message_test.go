package ipc

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestParse says of each line whether it is a message; all others are log text.
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
		{`{"type":"RESULT","payload":` + big + `}`, "", ""},
		{`{"type":"RESULT"}`, "", ""},

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
		m, ok := parse([]byte(c.line))
		if ok != (c.typ != "") || m.Type != c.typ || string(m.Payload) != c.payload {
			t.Errorf("parse(%.80s) = %v %s %.80s, want %s %.80s", c.line, ok, m.Type, m.Payload, c.typ, c.payload)
		}
	}
}

func TestStatus(t *testing.T) {
	s, err := Message{TypeStatus, json.RawMessage(`{"message":"half way","progress":0.5,"more":1}`)}.Status()
	if err != nil || s.Message != "half way" || s.Progress == nil || *s.Progress != 0.5 {
		t.Errorf("object: %+v, %v", s, err)
	}
	s, err = Message{TypeStatus, json.RawMessage(`"begun"`)}.Status()
	if err != nil || s.Message != "begun" || s.Progress != nil {
		t.Errorf("string: %+v, %v", s, err)
	}
	if _, err = (Message{TypeStatus, json.RawMessage(`{"progress":2}`)}).Status(); err == nil {
		t.Error("a progress of 2 is accepted")
	}
}

func TestFailure(t *testing.T) {
	f, err := Message{TypeError, json.RawMessage(`{"message":"no route","class":"network","retryable":false}`)}.Failure()
	if err != nil || f.Message != "no route" || f.Class != "network" || f.Retryable == nil || *f.Retryable {
		t.Errorf("object: %+v, %v", f, err)
	}
	f, err = Message{TypeError, json.RawMessage(`"no route"`)}.Failure()
	if err != nil || f.Message != "no route" || f.Retryable != nil {
		t.Errorf("string: %+v, %v", f, err)
	}
	if _, err = (Message{TypeError, json.RawMessage(`[]`)}).Failure(); err == nil {
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
		records, err := Message{TypeInsertData, json.RawMessage(c.payload)}.Records()
		var got []string
		for _, r := range records {
			got = append(got, string(r))
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("records of %s: %q, %v", c.payload, got, err)
		}
	}
	for _, payload := range []string{`1`, `[1]`, `"a"`, `[{},[]]`} {
		if _, err := (Message{TypeInsertData, json.RawMessage(payload)}).Records(); err == nil {
			t.Errorf("%s is accepted", payload)
		}
	}
}

func TestEncode(t *testing.T) {
	line, err := Encode(Cancel("a \"person\"\nasked", time.Date(2024, 2, 3, 4, 5, 6, 7000000, time.FixedZone("", 3600))))
	want := `{"type":"CANCEL","payload":{"reason":"a \"person\"\nasked","deadline":"2024-02-03T03:05:06.007Z"}}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("%s, %v\nwant %s", line, err, want)
	}
	if line, err = Encode(Message{Type: "PING"}); err != nil || string(line) != `{"type":"PING"}`+"\n" {
		t.Errorf("without payload: %s, %v", line, err)
	}
	if line, err = Encode(Message{"PING", json.RawMessage("{\n\"a\":\n1}")}); err != nil || string(line) != `{"type":"PING","payload":{"a":1}}`+"\n" {
		t.Errorf("payload of several lines: %s, %v", line, err)
	}
	if _, err = Encode(Message{"PING", json.RawMessage(`{`)}); err == nil {
		t.Error("a broken payload is accepted")
	}
}
