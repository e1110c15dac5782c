package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"millrace/task"
)

func TestStatesFor(t *testing.T) {
	t.Parallel()
	open, ended := []task.State{task.Pending, task.Running}, []task.State{task.Error, task.Cancelled}
	for _, c := range []struct {
		asked, usual, want []task.State
		refused            bool
	}{
		{nil, open, open, false},
		{nil, ended, ended, false},
		{[]task.State{task.Pending}, open, []task.State{task.Pending}, false},
		{[]task.State{task.Finished}, ended, []task.State{task.Finished}, false},
		{[]task.State{task.Pending, task.Error}, open, nil, true},
		{[]task.State{task.Running}, ended, nil, true},
	} {
		got, err := StatesFor(c.asked, c.usual)
		if !slices.Equal(got, c.want) || errors.Is(err, ErrWrongState) != c.refused {
			t.Errorf("of %v: %v, %v; want %v", c.asked, got, err, c.want)
		}
	}
}

// A bulk command changes each chosen task, page by page, up to a number, and until its context
// ends.
func TestBulk(t *testing.T) {
	t.Parallel()
	list := func(_ context.Context, r ListRequest) (ListPage, error) {
		from := 0
		if r.Cursor != "" {
			from, _ = strconv.Atoi(r.Cursor) // always a number here
		}
		page := ListPage{Seq: 7, Next: strconv.Itoa(from + 3)}
		for i := range 3 {
			page.Tasks = append(page.Tasks, task.Task{ID: task.ID(strconv.Itoa(from + i))})
		}
		if from == 6 {
			page.Next = ""
		}
		return page, nil
	}
	refused := errors.New("refused")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b := Bulk{List: list, Leave: func(k *task.Task) bool { return k.ID == "1" }, Do: func(_ context.Context, k task.Task) (*task.Task, error) {
		switch k.ID {
		case "2":
			return nil, refused
		case "3":
			return nil, nil
		}
		return &k, nil
	}}
	told := 0
	b.Each = func(*task.Task) { told++ }
	r, err := b.Run(ctx, "B")
	if err != nil || r.Chosen != 8 || r.Done != 6 || told != 6 || len(r.Tasks) != 6 || len(r.Refused) != 1 || r.Refused[0] != (Refusal{"2", "refused"}) || r.Batch != "B" || r.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	b.Most = 4
	if r, err := b.Run(ctx, "B"); err != nil || r.Chosen != 4 || r.Done != 2 {
		t.Errorf("at most 4: %+v, %v", r, err)
	}
	if r, err := b.Look(ctx, func([]task.Task) error { return nil }); err != nil || !r.DryRun || r.Chosen != 4 || r.Done != 0 {
		t.Errorf("looked at: %+v, %v", r, err)
	}
	b.Most = 0
	b.Do = func(_ context.Context, k task.Task) (*task.Task, error) { stop(); return &k, nil }
	if r, err := b.Run(ctx, "B"); err != nil || !r.Interrupted || r.Done > 2 || r.Done == 0 {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
}
