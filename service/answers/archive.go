package answers

import (
	"context"
	"errors"
	"fmt"
	"io"

	"millrace/internal/files"
	"millrace/service/client"
)

// LargestArchive is how many bytes a pushed archive may have, packed and unpacked.
const LargestArchive = largestVersion

// Contents are one file of a version, or all of its files as an archive.
type Contents struct {
	// Digest is the version's, and Path the file's; "" for all.
	Digest files.Digest
	Path   string
	// Size is the file's, in bytes; unknown for an archive.
	Size int64
	// Write writes the contents.
	Write func(context.Context, io.Writer) error
}

// errNoFile means that a version has no such file.
var errNoFile = errors.New("no such file")

// Contents finds a file of a version by its path, or all files for "". It reads no content before
// Write is called.
func (d *Desk) Contents(ctx context.Context, caller, version, path string) (is Contents, err error) {
	s, err := d.sit(caller, 0)
	if err != nil {
		return is, err
	}
	defer d.leave(s)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	service := d.service.as(caller)
	v, m, err := service.version(ctx, version)
	if err != nil {
		return is, d.blame(err)
	}
	is = Contents{Digest: v.Digest, Path: path}
	if path == "" {
		is.Write = func(ctx context.Context, w io.Writer) error { return service.Client.WriteArchive(ctx, m, w) }
		return is, nil
	}
	e := m.Find(path)
	if e == nil || !e.Regular() {
		return is, fmt.Errorf("%w in %s: %.200q", errNoFile, v.Digest.Short(), path)
	}
	is.Size = e.Size
	is.Write = func(ctx context.Context, w io.Writer) error { return service.Client.FilesContent(ctx, e, w) }
	return is, nil
}

// Push stores an archive as a version of a bundle, on behalf of a caller.
func (d *Desk) Push(ctx context.Context, caller, name string, archive io.Reader) (client.FilesPushed, error) {
	done, err := d.service.as(caller).Client.PushArchive(ctx, name, archive, LargestArchive)
	if errors.Is(err, client.ErrArchive) {
		err = tooLarge{err}
	}
	return done, d.blame(err)
}

// EditFile stores a version of a bundle that differs in one file, on behalf of a caller.
func (d *Desk) EditFile(ctx context.Context, caller string, e client.FileEdit) error {
	s, err := d.sit(caller, len(e.Content))
	if err != nil {
		return err
	}
	defer d.leave(s)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	service := d.service.as(caller)
	_, m, err := service.version(ctx, string(e.Seen))
	if err == nil {
		err = service.Client.EditFile(ctx, m, e)
	}
	return d.blame(err)
}
