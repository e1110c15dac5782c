package ipc

import (
	"fmt"
	"strings"
	"testing"
)

// TestGate: what a program prints, and what counts of it under each rule. A line counts as a whole
// or is text as it stands; the first one that does not count is named before.
func TestGate(t *testing.T) {
	const key = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		line string
		// want is what counts at most, and what it is: with each rule up to that one, without the
		// key.
		want Keyless
		is   string
	}{
		{`{"type":"STATUS","id":"1","payload":"up"}`, KeylessReports, `STATUS "up"`},
		{`{"type":"PROGRESS","payload":0.5}`, KeylessReports, `PROGRESS 0.5`},
		{`{"type":"METRIC","payload":{"a":1}}`, KeylessReports, `METRIC {"a":1}`},
		{`{"type":"LOG","payload":"x"}`, KeylessReports, `LOG "x"`},
		{`{"type":"INSERT_DATA","payload":{"a":1}}`, KeylessRecords, `INSERT_DATA {"a":1}`},
		{`{"type":"INSERT_DATA","payload":{"a":"` + long + `"}}`, KeylessRecords, `INSERT_DATA excess`},
		{`{"type":"RESULT","payload":1}`, KeylessAll, `RESULT 1`},
		{`{"type":"RESULT","payload":"` + long + `"}`, KeylessAll, `RESULT excess`},
		{`{"type":"ERROR","payload":{"message":"x","fatal":true}}`, KeylessAll, `ERROR {"message":"x","fatal":true}`},
		{`{"type":"SPAWN","payload":{"argv":["true"]}}`, KeylessAll, `SPAWN {"argv":["true"]}`},
		{`{"type":"CHECKPOINT","payload":1}`, KeylessAll, `CHECKPOINT 1`},
		{`{"type":"EXTEND","payload":60}`, KeylessAll, `EXTEND 60`},
		{`{"type":"HEARTBEAT"}`, KeylessAll, `HEARTBEAT `},
		{`{"type":"READY"}`, KeylessAll, `READY `},
		{`{"progress":0.5}`, KeylessReports, `PROGRESS {"message":"","progress":0.5}`},
		{`{"perf":{"a":1}}`, KeylessReports, `METRIC {"a":1}`},
		{`{"complete":1}`, KeylessAll, `PROGRESS 1`},
		{`{"complete":1,"description":"done"}`, KeylessAll, `STATUS "done"`},
		{`{"complete":1,"code":1}`, KeylessAll, `ERROR {"class":"task","fatal":true,"message":"the program says that it has failed, with code 1"}`},
		{`{"perf":{"a":1},"complete":1,"code":1}`, KeylessAll, `METRIC {"a":1}; ERROR {"class":"task","fatal":true,"message":"the program says that it has failed, with code 1"}`},
	} {
		for _, word := range []string{"", "key", "wrong", "part", "payload"} {
			line := c.line
			switch word {
			case "key":
				line = strings.Replace(line, "{", `{"key":"`+key+`",`, 1)
			case "wrong":
				line = strings.Replace(line, "{", `{"key":"`+strings.ToLower(key)+`",`, 1)
			case "part":
				line = strings.Replace(line, "{", `{"key":"`+key[:25]+`",`, 1)
			case "payload": // a key in another place
				line = strings.Replace(line, `{"a":`, `{"key":"`+key+`","a":`, 1)
				if line == c.line || !strings.Contains(line, "INSERT_DATA") {
					continue
				}
			}
			for rule := range KeylessOff + 1 {
				g := Gate{Key: key, Keyless: rule}
				counts := rule <= c.want || word == "key" && rule != KeylessOff
				r := NewReader(strings.NewReader(line + "\nend\n"))
				r.gate, r.maxMessage = g, 170
				var got, texts []string
				named := ""
				for {
					item, err := r.Next()
					if err != nil {
						break
					}
					switch m := item.Message; {
					case item.IsMessage():
						what := string(m.Payload)
						if m.Excess != "" {
							what = "excess"
						}
						got = append(got, m.Type+" "+what)
						if bare := word != "key" && rule > KeylessAll; m.Bare != bare || bare && m.ID != "" {
							t.Errorf("%s under %d: bare %v, id %q", line, rule, m.Bare, m.ID)
						}
					case item.Withheld != "":
						named += item.Withheld
					default:
						item.Line.Each(func(l Line) { texts = append(texts, string(l.Text)) })
					}
				}
				want, text := c.is, "end"
				if word == "payload" {
					want = strings.Replace(want, `{"a":`, `{"key":"`+key+`","a":`, 1)
				}
				if !counts {
					want, text = "", line+"; end"
				}
				if strings.Join(got, "; ") != want || strings.Join(texts, "; ") != text {
					t.Errorf("%s under %d: %q and text %q, want %q and %q", line, rule, got, texts, want, text)
				}
				if (named == "") != counts || named != "" && strings.Contains(line, "type") && !strings.Contains(line, named) {
					t.Errorf("%s under %d: it names %q", line, rule, named)
				}
			}
		}
	}
}

// TestGateNamesOne: of many messages that do not count one is named, and long ones keep their text.
func TestGateNamesOne(t *testing.T) {
	lines := strings.Repeat(`{"type":"SPAWN","payload":{"argv":["true"]}}`+"\n", 3) + `{"type":"RESULT","payload":"` + strings.Repeat("x", 3<<20) + `"}` + "\nend"
	r := NewReader(strings.NewReader(lines))
	r.gate = Gate{Key: "k", Keyless: KeylessReports}
	var named []string
	var text strings.Builder
	for {
		item, err := r.Next()
		if err != nil {
			break
		}
		if item.IsMessage() {
			t.Fatalf("%s counts", item.Message.Type)
		}
		if item.Withheld != "" {
			named = append(named, item.Withheld)
			continue
		}
		text.Write(item.Line.Text)
		if !item.Line.Partial {
			text.WriteByte('\n')
		}
	}
	if fmt.Sprint(named) != "[SPAWN]" || text.String() != lines+"\n" {
		t.Errorf("it names %v, and %d of %d bytes are text", named, text.Len(), len(lines)+1)
	}
}
