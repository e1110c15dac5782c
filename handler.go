package millrace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"millrace/task/value"
	"millrace/worker"
)

// From returns the App by which ctx's task runs; nil outside a function.
func From(ctx context.Context) *App {
	if r, _ := ctx.Value(runningKey{}).(*running); r != nil {
		return r.app
	}
	return nil
}

// Current returns the task that ctx belongs to: its id, attempt, epoch, labels and what else it
// has; nil outside a function.
func Current(ctx context.Context) *Task {
	if of := worker.FromContext(ctx); of != nil {
		t := of.Task
		return &t
	}
	return nil
}

// Progress says how far the task is, from 0 to 1, and in words what it does; an empty text keeps
// the previous one. Of quick reports only the latest in each second is stored.
func Progress(ctx context.Context, share float64, text string) {
	if of := worker.FromContext(ctx); of != nil {
		of.Output.Progress(share, text)
	}
}

// Heartbeat says that the task makes progress, for one with `timeout: {heartbeat: …}` in [Fields].
// Whatever else a function does here says so, too.
func Heartbeat(ctx context.Context) {
	if of := worker.FromContext(ctx); of != nil {
		of.Output.Heartbeat()
	}
}

// Record adds records to what the task has produced, each as JSON (`millrace data`). They are kept
// also if the attempt fails. The error says that a record is no JSON or that earlier ones could not
// be stored; then the attempt cannot succeed.
func Record(ctx context.Context, records ...any) error {
	items := make([]json.RawMessage, len(records))
	for i, r := range records {
		var err error
		if items[i], err = json.Marshal(r); err != nil {
			return fmt.Errorf("millrace: record: %w", err)
		}
	}
	if of := worker.FromContext(ctx); of != nil {
		return of.Output.Insert(items...)
	}
	return nil
}

// Checkpoint stores as JSON from where a later attempt can go on, at most 64 KiB, in place of the
// previous one. When it returns without an error, that is durable. The error wraps
// [worker.ErrFenced] if the task is another attempt's by now.
func Checkpoint(ctx context.Context, from any) error {
	body, err := json.Marshal(from)
	if of := worker.FromContext(ctx); err == nil && of != nil {
		err = of.Checkpoint(ctx, body)
	}
	if err != nil {
		return fmt.Errorf("millrace: %w", err)
	}
	return nil
}

// Resume returns the checkpoint of an earlier attempt; false if there is none.
func Resume[T any](ctx context.Context) (from T, ok bool, err error) {
	of := worker.FromContext(ctx)
	if of == nil || of.Last() == nil {
		return from, false, nil
	}
	if err := json.Unmarshal(of.Last(), &from); err != nil {
		return from, false, fmt.Errorf("millrace: checkpoint: %w", value.Plainly(err))
	}
	return from, true, nil
}

// MoreTime asks that the attempt's timeout pass no earlier than by from now, and returns when it
// now passes: no later than its [Extendable] allows, and zero if there is no timeout. The error
// wraps [ErrNotRunning] outside a function.
func MoreTime(ctx context.Context, by time.Duration) (time.Time, error) {
	of := worker.FromContext(ctx)
	if of == nil {
		return time.Time{}, fmt.Errorf("millrace: more time: %w", ErrNotRunning)
	}
	return of.Extend(ctx, by)
}

// Logger returns a logger whose lines the task's log has (`millrace task logs`), with their levels
// and attributes; outside a function [slog.Default].
func Logger(ctx context.Context) *slog.Logger {
	of := worker.FromContext(ctx)
	if of == nil {
		return slog.Default()
	}
	room := &room{}
	return slog.New(lines{of.Output, room, slog.NewJSONHandler(&room.text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: attributes})})
}

// lines is a [slog.Handler] that writes into a task's log.
type lines struct {
	to     *worker.Output
	room   *room
	fields slog.Handler // writes the attributes alone into room
}

// room is where the attributes of one line are written.
type room struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// attributes leaves out what a line has beside its attributes.
func attributes(groups []string, a slog.Attr) slog.Attr {
	_, level := a.Value.Any().(slog.Level)
	if len(groups) == 0 && (a.Key == slog.LevelKey && level || a.Key == slog.MessageKey && a.Value.String() == "") {
		return slog.Attr{}
	}
	return a
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(ctx context.Context, r slog.Record) error {
	bare := slog.NewRecord(time.Time{}, r.Level, "", 0)
	r.Attrs(func(a slog.Attr) bool { bare.AddAttrs(a); return true })
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	l.room.text.Reset()
	if err := l.fields.Handle(ctx, bare); err != nil {
		return err
	}
	fields := bytes.Clone(bytes.TrimSpace(l.room.text.Bytes()))
	if string(fields) == "{}" {
		fields = nil
	}
	level, _, _ := strings.Cut(strings.ToLower(r.Level.String()), "+") // INFO+2 is info
	l.to.Log(level, r.Message, fields)
	return nil
}

func (l lines) WithAttrs(a []slog.Attr) slog.Handler {
	l.fields = l.fields.WithAttrs(a)
	return l
}

func (l lines) WithGroup(name string) slog.Handler {
	l.fields = l.fields.WithGroup(name)
	return l
}
