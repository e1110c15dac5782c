package answers

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// A page has as many rows as go into a message, and the rest comes after it.
func TestFit(t *testing.T) {
	const limit = 2000
	for _, size := range []int{1, 100, 900, 1700} {
		filter := &view.Filter{OldestFirst: true}
		rows := make([]task.Task, 7)
		for i := range rows {
			rows[i] = task.Task{ID: task.ID(fmt.Sprintf("01JNAT%020d", i)), State: task.Error, Message: strings.Repeat("x", size)}
		}
		body, err := fit(taskPage{client.ListPage{Tasks: rows, Next: "further"}, filter}, limit)
		if err != nil || len(body) > limit {
			t.Fatalf("rows of %d: %d bytes, %v", size, len(body), err)
		}
		var got client.ListPage
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		n := len(got.Tasks)
		want := "further"
		if n < len(rows) {
			want = filter.CursorAfter(rows[n-1].ID)
		}
		if n == 0 || got.Next != want || got.Tasks[n-1].ID != rows[n-1].ID {
			t.Errorf("rows of %d: %d of them, and then %q, want %q", size, n, got.Next, want)
		}
	}

	dead := make([]client.Unreadable, 4)
	for i := range dead {
		dead[i] = client.Unreadable{Seq: uint64(40 - i), Raw: make([]byte, 600)}
	}
	body, err := fit(client.UnreadablePage{Messages: dead}, limit)
	var got client.UnreadablePage
	if err != nil || json.Unmarshal(body, &got) != nil || len(got.Messages) != 2 || got.Next != 39 {
		t.Errorf("%d messages, and then those before %d; %v", len(got.Messages), got.Next, err)
	}
}

// Each answer that says how to go on can be cut.
func TestPagesAreCut(t *testing.T) {
	for _, e := range endpoints {
		if e.Answer.Kind() != reflect.Struct {
			continue
		}
		page := reflect.New(e.Answer).Elem()
		next, pages := e.Answer.FieldByName("Next")
		if !pages || next.Type.Kind() != reflect.String && next.Type.Kind() != reflect.Uint64 || e.Verb == rights.TaskList { // that one needs a filter
			continue
		}
		var rows reflect.Value
		for _, f := range reflect.VisibleFields(e.Answer) {
			if of := page.FieldByIndex(f.Index); of.Kind() == reflect.Slice && !rows.IsValid() && f.Name != "States" {
				rows = of
			}
		}
		rows.Set(reflect.MakeSlice(rows.Type(), 3, 3))
		half, ok := halved(page.Interface())
		if !ok || reflect.TypeOf(half) != e.Answer {
			t.Errorf("%s: %T is not cut", e.Verb, page.Interface())
			continue
		}
		if _, again := halved(half); again {
			t.Errorf("%s: one row is cut", e.Verb)
		}
		if rows.Len() != 3 {
			t.Errorf("%s: the page that was cut has %d rows", e.Verb, rows.Len())
		}
	}
}

// A single row that is too large is an error that says what to do.
func TestFitRefuses(t *testing.T) {
	row := task.Task{ID: "01JNAT00000000000000000001", Message: strings.Repeat("x", 500)}
	for _, answer := range []any{row, taskPage{client.ListPage{Tasks: []task.Task{row}}, &view.Filter{}}} {
		var large tooLarge
		if _, err := fit(answer, 400); !errors.As(err, &large) || codeOf(err) != "413" || !strings.Contains(err.Error(), "max_payload") {
			t.Errorf("%T: %v", answer, err)
		}
	}
}
