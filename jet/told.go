package jet

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/events"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/output"
)

// Resume returns the lease of an offer that an earlier process has pulled, by its token.
func (s *Store) Resume(token string) events.Lease { return &lease{store: s, reply: token} }

// Token implements [events.Lasting].
func (l *lease) Token() string { return l.reply }

// Token implements [events.Lasting].
func (l *ownLease) Token() string {
	if now, ok := l.get().(events.Lasting); ok {
		return now.Token()
	}
	return ""
}

// Told says what is stored of what an attempt has printed and produced. Usually the last
// message of each tells; if that is another attempt's, all are read.
func (s *Store) Told(ctx context.Context, id task.ID, epoch uint64) (told output.Told, err error) {
	var lines output.Lines
	see := func(b output.Lines) error {
		for i := range b.Lines {
			if l := &b.Lines[i]; b.Epoch == epoch {
				told.Lines, told.Upto = max(told.Lines, l.N), max(told.Upto, l.Upto)
			}
		}
		return nil
	}
	seq, data, err := s.lastOf(ctx, wire.OutputStream, wire.OutputPrefix+string(id))
	if err != nil {
		return told, fmt.Errorf("read what task %s has printed: %w", id, err)
	}
	_ = json.Unmarshal(data, &lines) // what cannot be read is none of ours
	if _ = see(lines); seq > 0 && lines.Epoch != epoch {
		if err := s.Printed(ctx, id, false, see); err != nil {
			return told, fmt.Errorf("read what task %s has printed: %w", id, err)
		}
	}
	var records output.Records
	count := func(r output.Records) error {
		if r.Epoch == epoch {
			told.Records = max(told.Records, r.First+len(r.Items))
		}
		return nil
	}
	seq, data, err = s.lastOf(ctx, wire.DataStream, wire.DataPrefix+string(id))
	_ = json.Unmarshal(data, &records)
	if _ = count(records); err == nil && seq > 0 && records.Epoch != epoch {
		err = s.Kept(ctx, id, false, count)
	}
	if err != nil {
		return told, fmt.Errorf("read what task %s has produced: %w", id, err)
	}
	return told, nil
}
