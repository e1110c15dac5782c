package ipc

import (
	"bytes"
	"encoding/json"
)

// The flat form is Cronicle's, whose plugins print objects without an envelope. A line counts only
// if all its fields belong to that form and at least one of them has a meaning here: so no
// program's log is mistaken for it.

// flatFields are the fields of the flat form; true for those with a meaning here.
var flatFields = map[string]bool{
	`"progress"`: true, `"complete"`: true, `"perf"`: true,
	`"code"`: false, `"description"`: false, `"label"`: false, `"table"`: false, `"html"`: false,
	`"key"`: false, `"chain"`: false, `"chain_data"`: false, `"chain_error"`: false, `"update_event"`: false, `"notify_success"`: false, `"notify_fail"`: false,
}

// flat is the meaning of a line in the flat form.
type flat struct {
	all  []Message
	key  []byte // shares the line's memory
	ends bool   // the line says that the work is complete
}

// parseFlat parses one line in the flat form; it returns no messages if the line has another form.
func parseFlat(line []byte) (all flat) {
	if !flatFirst(line) || !json.Valid(line) || kind(line) != '{' {
		return flat{}
	}
	var f struct {
		Progress    *float64
		Complete    json.RawMessage
		Code        json.RawMessage
		Description string
		Label       string
		Perf        json.RawMessage
	}
	means := false
	for name, value := range members(line) {
		meaning, ours := flatFields[string(name)]
		if !ours {
			return flat{}
		}
		means = means || meaning
		if string(name) == `"key"` {
			all.key = plain(value)
		}
	}
	if !means || json.Unmarshal(line, &f) != nil {
		return flat{}
	}
	add := func(m Message) { all.all = append(all.all, m) }
	if f.Progress != nil {
		if *f.Progress < 0 || *f.Progress > 1 {
			return flat{}
		}
		add(tell(TypeProgress, map[string]any{"progress": *f.Progress, "message": f.Label}))
	}
	if m := (Message{Type: TypeMetric, Payload: bytes.Clone(f.Perf)}); kind(f.Perf) == '{' && m.check() == nil {
		add(m)
	}
	if all.ends = truth(f.Complete); !all.ends {
		return all
	}
	switch {
	case truth(f.Code):
		what := f.Description
		if what == "" {
			what = "the program says that it has failed, with code " + string(f.Code)
		}
		add(tell(TypeError, map[string]any{"message": what, "class": "task", "fatal": true}))
	case f.Description != "":
		add(tell(TypeStatus, f.Description))
	default:
		add(tell(TypeProgress, 1))
	}
	return all
}

// flatFirst tells whether the first key of an object belongs to the flat form. It lets other JSON
// stop early.
func flatFirst(line []byte) bool {
	at := skipSpace(line, skipSpace(line, 0)+1)
	if at >= len(line) || line[at] != '"' {
		return false
	}
	_, ours := flatFields[string(line[at:skipString(line, at)])]
	return ours
}

// truth tells whether a JSON value is present and not empty, zero or false.
func truth(value []byte) bool {
	switch string(value) {
	case "", "0", "null", "false", `""`, `"0"`:
		return false
	}
	return true
}
