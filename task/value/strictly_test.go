package value_test

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/task/value"
)

type Part struct {
	Key   string         `json:"key,omitempty"`
	Count int            `json:"count,omitempty"`
	Wait  value.Duration `json:"wait,omitempty"`
	Room  value.Size     `json:"room,omitempty"`
	Share float64        `json:"share,omitempty"`
	Later value.Duration `json:"later,omitempty" least:"0"`
	From  uint64         `json:"from,omitempty"`
	Exact int            `json:"exact"`
	Maybe *int           `json:"maybe,omitempty"`
	More  []Part         `json:"more,omitempty"`
}

// hollow has a list of items without text.
var hollow = `{"more":[` + strings.Repeat("{},", 199_999) + `{}]}`

type parts []Part

func (l *parts) FormOf(data []byte) any {
	if data[0] == '[' {
		return []Part{}
	}
	return Part{}
}

func (l *parts) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]Part)(l))
	}
	*l = make(parts, 1)
	return json.Unmarshal(data, &(*l)[0])
}

type whole struct {
	Part
	Parts parts                      `json:"parts,omitempty"`
	Table map[string]Part            `json:"table,omitempty"`
	Given map[string]json.RawMessage `json:"given,omitempty"`
	Any   json.RawMessage            `json:"any,omitempty"`
	Inner *Part                      `json:"inner,omitempty"`
}

func TestStrictly(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:   "",
		`null`: "",
		`{"key":"a","parts":{"count":2},"table":{"x":{"key":"y"}},"inner":null}`: "",
		`{"any":{"a":1,"a":2,"x":0},"given":{"count":0,"b":{"c":1,"c":2}}}`:      "", // JSON that is kept as it is
		`{"later":"0s","from":0,"exact":0,"maybe":0,"inner":{"later":"0"}}`:      "",
		`{"kye":"a"}`:                       `there is no field "kye"; it takes key, count, wait, room, share, later, from, exact, maybe, more, parts, table, given, any, inner`,
		`{"Key":"a"}`:                       `there is no field "Key"; it takes key, count, wait, room, share, later, from, exact, maybe, more, parts, table, given, any, inner`,
		`{"parts":{"kye":"a"}}`:             `there is no field "kye" in parts, which takes key, count, wait, room, share, later, from, exact, maybe, more`,
		`{"parts":[{},{"kye":"a"}]}`:        `there is no field "kye" in parts[1], which takes key, count, wait, room, share, later, from, exact, maybe, more`,
		`{"table":{"x":{"kye":""}}}`:        `there is no field "kye" in table.x, which takes key, count, wait, room, share, later, from, exact, maybe, more`,
		`{"key":"a","key":"b"}`:             "key is there twice",
		`{"given":{"i":1,"i":2}}`:           "given.i is there twice",
		`{"parts":[{"count":1,"count":1}]}`: "parts[0].count is there twice",
		`{"count":0}`:                       "count is 0: want more than zero, or leave it out for its default",
		`{"share":0.0}`:                     "share is 0.0: want more than zero, or leave it out for its default",
		`{"inner":{"wait":"0m"}}`:           "inner.wait is 0m: want more than zero, or leave it out for its default",
		`{"parts":{"room":"0B"}}`:           "parts.room is 0B: want more than zero, or leave it out for its default",
		`{"count":"x"}`:                     "count is a string, want a whole number",
		`{} {}`:                             "it goes on behind its end",
		`{"parts":[` + strings.Repeat("{},", 400_000) + `{}]}`: "parts has 400001 items, which with all other lists is too much",
		`{"table":{"a":` + hollow + `,"b":` + hollow + `}}`:    "table.b.more has 200000 items, which with all other lists is too much",
	} {
		var into whole
		got := ""
		if err := value.Strictly([]byte(text), &into); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.80s: %q, want %q", text, got, want)
		}
	}
}

// A small text does not become hundreds of times as much in memory.
func TestDense(t *testing.T) {
	many := func(item string) string { return "[" + strings.Repeat(item+",", 10_000) + item + "]" }
	for text, want := range map[string]bool{
		`{}`:                                      true,
		`{"more":[{},{}]}`:                        true,
		`{"more":` + many(`{"key":"x"}`) + `}`:    true,
		`{"any":` + many(`{}`) + `,"x":1}`:        true, // kept as it is
		`{"nothing":` + many(`{}`) + `}`:          true, // ignored
		`{"more":` + many(`{}`) + `}`:             true, // 3 bytes for each 104
		`{"large":` + many(`{}`) + `}`:            false,
		`{"LARGE":` + many(`null`) + `}`:          false,
		`{"parts":[{"more":[]},{}]}`:              true,
		`{"deep":[{"large":` + many(`{}`) + `}]}`: false,
		`{"large":` + many(`{"text":"`+strings.Repeat("x", 16)+`"}`) + `}`: true,
	} {
		if err := value.Dense([]byte(text), new(large)); (err == nil) != want {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

type large struct {
	whole
	Text  string       `json:"text,omitempty"`
	Room  [100]float64 `json:"-"`
	Large []large      `json:"large,omitempty"`
	Deep  []large      `json:"deep,omitempty"`
}
