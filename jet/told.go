package jet

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/events"
	"millrace/task"
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
func (s *Store) Told(ctx context.Context, id task.ID, epoch uint64) (told task.Told, err error) {
	var lines task.Lines
	see := func(b task.Lines) error {
		for i := range b.Lines {
			if l := &b.Lines[i]; b.Epoch == epoch {
				told.Lines, told.Upto = max(told.Lines, l.N), max(told.Upto, l.Upto)
			}
		}
		return nil
	}
	found, err := s.lastOf(ctx, OutputStream, outputPrefix+string(id), &lines)
	if err != nil {
		return told, fmt.Errorf("read what task %s has printed: %w", id, err)
	}
	if _ = see(lines); found && lines.Epoch != epoch {
		if err := s.Printed(ctx, id, false, see); err != nil {
			return told, fmt.Errorf("read what task %s has printed: %w", id, err)
		}
	}
	var records task.Records
	count := func(r task.Records) error {
		if r.Epoch == epoch {
			told.Records = max(told.Records, r.First+len(r.Items))
		}
		return nil
	}
	found, err = s.lastOf(ctx, DataStream, dataPrefix+string(id), &records)
	if _ = count(records); err == nil && found && records.Epoch != epoch {
		err = s.Kept(ctx, id, false, count)
	}
	if err != nil {
		return told, fmt.Errorf("read what task %s has produced: %w", id, err)
	}
	return told, nil
}

// lastOf reads the last message of a subject from the stream's leader, and tells whether there is one.
func (s *Store) lastOf(ctx context.Context, stream, subject string, into any) (bool, error) {
	m, found, err := s.leaderGetFrom(ctx, stream, map[string]any{"last_by_subj": subject})
	if err != nil || !found {
		return false, err
	}
	_ = json.Unmarshal(m.Data, into) // what cannot be read is none of ours
	return true, nil
}
