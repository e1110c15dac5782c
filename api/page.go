package api

import (
	"encoding/json"
	"fmt"

	"millrace/client"
	"millrace/task"
	"millrace/view"
)

// page is an answer that can be cut short: it says how to get the rest.
type page interface {
	// half returns the first half of the page; false if it is one row.
	half() (page, bool)
}

// fit encodes an answer in at most limit bytes. It shortens a page until it fits; the caller gets
// the rest with the next page.
func fit(answer any, limit int) ([]byte, error) {
	for {
		body, err := Encode(answer)
		if err != nil || len(body) <= limit {
			return body, err
		}
		if p, ok := answer.(page); ok {
			if answer, ok = p.half(); ok {
				continue
			}
		}
		return nil, tooLarge{fmt.Errorf("the answer has %d bytes, the server takes %d: raise its max_payload", len(body), limit)}
	}
}

// Encode returns an answer as JSON. Long and frequent answers have a faster way than json.Marshal.
func Encode(answer any) ([]byte, error) {
	if p, ok := answer.(taskPage); ok {
		return p.AppendJSON(nil)
	}
	return json.Marshal(answer)
}

// tooLarge is the error of an answer that does not fit into a message.
type tooLarge struct{ error }

// taskPage is a page of tasks, with the filter that makes its cursor.
type taskPage struct {
	client.ListPage
	filter *view.Filter
}

func (p taskPage) half() (page, bool) {
	n := len(p.Tasks) / 2
	if n == 0 {
		return nil, false
	}
	p.Tasks, p.Next = p.Tasks[:n], p.filter.CursorAfter(p.Tasks[n-1].ID)
	p.Live, p.Wholes = only(p.Tasks, p.Live), only(p.Tasks, p.Wholes)
	p.Suspects = only(p.Tasks, p.Suspects)
	return p, true
}

// only returns the entries of said for these tasks.
func only[T any](tasks []task.Task, said map[task.ID]T) map[task.ID]T {
	kept := map[task.ID]T{}
	for i := range tasks {
		if of, ok := said[tasks[i].ID]; ok {
			kept[tasks[i].ID] = of
		}
	}
	return kept
}

// deadPage is a page of unreadable messages.
type deadPage struct{ client.UnreadablePage }

func (p deadPage) half() (page, bool) {
	n := len(p.Messages) / 2
	if n == 0 {
		return nil, false
	}
	p.Messages, p.Next = p.Messages[:n], p.Messages[n-1].Seq
	return p, true
}
