package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"millrace/history/incident"
	"millrace/internal/cli/term"
	"millrace/task/value"
)

// Bound is how much an incident file may hold, unpacked, for a command: by default as much as an
// upload, for a file may come from anywhere.
type Bound struct{ most value.Size }

// BoundFlag is the name of its flag.
const BoundFlag = "max-unpacked"

// Flag adds the flag.
func (b *Bound) Flag(fs *pflag.FlagSet) {
	fs.TextVar(&b.most, BoundFlag, value.Size(incident.MaxUnpacked), "read an incident file of at most this `size`, unpacked; it is kept in memory")
}

// Read reads an incident file. name is its name in errors.
func (b Bound) Read(name string, from io.Reader) (*incident.File, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, &term.Fault{Code: term.ExitNotFound, Err: err}
	}
	f, err := incident.OpenUpTo(data, int(cmp.Or(b.most, incident.MaxUnpacked)))
	if err == nil {
		return f, nil
	}
	fault := &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%s: %w", name, err)}
	if errors.Is(err, incident.ErrLarge) {
		fault.Hint = term.Hint("--%s allows more, if you trust the file", BoundFlag)
	}
	return nil, fault
}
