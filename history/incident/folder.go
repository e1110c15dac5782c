package incident

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"millrace/internal/files"
)

// Folder is a [Place] in a file system. It has the messages with all that they say, so only its user may
// read it.
type Folder string

var _ Place = Folder("")

// List implements [Place].
func (d Folder) List(context.Context) (map[string]int64, error) {
	all, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	names := map[string]int64{}
	for _, e := range all {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			names[e.Name()] = info.Size()
		}
	}
	return names, nil
}

// Open implements [Place].
func (d Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(d), name))
}

// Put implements [Place].
func (d Folder) Put(_ context.Context, write func(io.Writer) (string, error)) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return files.Put(string(d), func(to io.Writer) (string, error) {
		out := bufio.NewWriterSize(to, 1<<20)
		name, err := write(out)
		return name, errors.Join(err, out.Flush())
	})
}

// Remove implements [Place].
func (d Folder) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}
