package typed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
)

var midday = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute, "7d": 7 * 24 * time.Hour, "1.5d": 36 * time.Hour, "1w": 7 * 24 * time.Hour, "0s": 0,
	} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "-1d", "-5s", "1e9d", "NaNd", "7 d", "soon"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("parseSpan(%q) = %v, want an error", text, got)
		}
	}
}

func TestParsePast(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2h": midday.Add(-2 * time.Hour), "7d": midday.AddDate(0, 0, -7),
		"2026-02-28": time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC), "2026-02-28 13:30": time.Date(2026, 2, 28, 13, 30, 0, 0, time.UTC),
		"2026-02-28T13:30:01.5+02:00": time.Date(2026, 2, 28, 11, 30, 1, 5e8, time.UTC), "11:30": midday.Add(-30 * time.Minute),
	} {
		if got, err := Past(text, midday); err != nil || !got.Equal(want) {
			t.Errorf("parsePast(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := Past("yesterday", midday); err == nil || !strings.Contains(err.Error(), "2h, 7d") {
		t.Errorf("parsePast of nonsense: %v, want one that shows the forms", err)
	}
}

func TestParseFuture(t *testing.T) {
	for text, want := range map[string]time.Time{
		"13:00": midday.Add(time.Hour), "11:00": midday.Add(23 * time.Hour), "12:00": midday.AddDate(0, 0, 1), "12:00:01": midday.Add(time.Second),
		"2026-03-02T00:00:00Z": midday.Add(12 * time.Hour), "2025-01-01 00:00": time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := Future(text, midday); err != nil || !got.Equal(want) {
			t.Errorf("parseFuture(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParseParams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte(`{"a":1,"b":[true]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		whole string
		each  []string
		want  string
	}{
		"none":            {"", nil, `null`},
		"values":          {"", []string{"n=3", "f=1.50", "t=true", "o={\"x\":null}", "s=World", "q=\"3\"", "e=", "eq=a=b", "z=null"}, `{"n":3,"f":1.50,"t":true,"o":{"x":null},"s":"World","q":"3","e":"","eq":"a=b","z":null}`},
		"not quite JSON":  {"", []string{"a={x}", "b=01", "c=NaN", "d=\xff"}, `{"a":"{x}","b":"01","c":"NaN","d":"\ufffd"}`},
		"whole, then one": {`{"a":1,"b":2}`, []string{"b=3"}, `{"a":1,"b":3}`},
		"file":            {"@" + file, nil, `{"a":1,"b":[true]}`},
		"stdin":           {"-", nil, `{"in":1}`},
		"lines":           {"# of the crawl\nexport n=3\nname='World of \"x\"'\n\nlist=[1,2] # JSON\nempty=\n", []string{"n=4"}, `{"n":4,"name":"World of \"x\"","list":[1,2],"empty":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Params(c.whole, c.each, strings.NewReader(`{"in":1}`))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(got)
			var a, b any
			if json.Unmarshal(text, &a) != nil || json.Unmarshal([]byte(c.want), &b) != nil {
				t.Fatal("not JSON")
			}
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			if string(x) != string(y) {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
	for _, c := range [][]string{{"[]"}, {"null"}, {"{"}, {"{a=1}"}, {"just words"}, {"# nothing"}, {"=x"}, {"@/none/such"}, {"", "novalue"}, {"", "=x"}} {
		if got, err := Params(c[0], c[1:], strings.NewReader("")); err == nil {
			t.Errorf("parseParams(%q) = %s, want an error", c, got)
		}
	}
}

func TestParseStates(t *testing.T) {
	got, err := States([]string{"error, abnormal", "pending"})
	if want := []task.State{task.Error, task.Abnormal, task.Pending}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, name := range []string{"active", "ended"} {
		got, err := States([]string{name})
		if err != nil || len(got) == 0 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for _, s := range got {
			if s.Terminal() != (name == "ended") {
				t.Errorf("%s holds %s", name, s)
			}
		}
	}
	if _, err := States([]string{"unknown"}); err == nil {
		t.Error("a task is never unknown, so nobody can ask for that")
	}
}
