package client

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"millrace/internal/files"
)

// ErrArchive refuses an archive that is too large.
var ErrArchive = errors.New("the archive holds more than is taken")

// WriteArchive writes the files of a version to w in tar format.
func (c *Client) WriteArchive(ctx context.Context, m *files.Manifest, w io.Writer) error {
	t := tar.NewWriter(w)
	for i := range m.Entries {
		e := &m.Entries[i]
		h := tar.Header{Name: e.Path, Size: e.Size, Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch {
		case e.Dir:
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, e.Path+"/", 0o755
		case e.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
		case e.Exec:
			h.Mode = 0o755
		}
		if err := t.WriteHeader(&h); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if err := c.FilesContent(ctx, e, t); err != nil {
			return err
		}
	}
	return t.Close()
}

// PushArchive stores the files of a tar archive as a version of a bundle, as [Client.PushFiles]
// does a folder. It first unpacks the archive to a temporary folder, at most most bytes. The error
// wraps [ErrInvalid] if it is not an archive or holds entries that a bundle cannot have, and
// [ErrArchive] if it is too large.
func (c *Client) PushArchive(ctx context.Context, name string, archive io.Reader, most int64) (done FilesPushed, err error) {
	if err := files.ValidBundleName(name); err != nil {
		return done, fmt.Errorf("push: %w", Wrong(err))
	}
	dir, err := os.MkdirTemp("", "millrace-push-")
	if err != nil {
		return done, fmt.Errorf("push: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return done, fmt.Errorf("push: %w", err)
	}
	defer root.Close()
	if err := unpack(ctx, root, archive, most); err != nil {
		return done, fmt.Errorf("push: %w", err)
	}
	ignore, err := files.ReadIgnore(root)
	var t *files.Tree
	if err == nil {
		t, err = files.Scan(ctx, root, files.Options{Ignore: ignore})
	}
	if err != nil { // the folder was just written, so the fault is in the archive
		return done, fmt.Errorf("push: %w", Wrong(err))
	}
	done, err = c.pushTree(ctx, root, t, &FilesPush{Name: name})
	if err != nil {
		err = fmt.Errorf("push: %w", err)
	}
	return done, err
}

// entryCost is what an entry counts beside its contents, in bytes: it takes room on a disk, too.
const entryCost = 512

// unpack writes the files of an archive below root, and nowhere else.
func unpack(ctx context.Context, root *os.Root, archive io.Reader, most int64) error {
	whole := &ending{of: archive}
	t := tar.NewReader(whole)
	for left := most; ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && whole.zeros < endOfArchive:
			return unpacking(io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unpacking(err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if left -= h.Size + entryCost; left < 0 {
			return fmt.Errorf("%w: %d bytes", ErrArchive, most)
		}
		if err := unpackOne(root, h, t); err != nil {
			return err
		}
	}
}

// endOfArchive is how many zero bytes end an archive. Without them it may have been cut short.
const endOfArchive = 1024

// ending counts the zero bytes at the end of what was read.
type ending struct {
	of    io.Reader
	zeros int
}

// Read implements [io.Reader].
func (e *ending) Read(b []byte) (int, error) {
	n, err := e.of.Read(b)
	if rest := len(bytes.TrimRight(b[:n], "\x00")); rest > 0 {
		e.zeros = n - rest
	} else {
		e.zeros += n
	}
	return n, err
}

// unpacking wraps an error of reading an archive as the sender's.
func unpacking(err error) error {
	return Wrongf("the archive cannot be read: %w", err)
}

func unpackOne(root *os.Root, h *tar.Header, content io.Reader) error {
	at := path.Clean(h.Name)
	wrong := func(err error) error { return Wrongf("%.200q in the archive: %w", h.Name, err) }
	if at == "." && h.Typeflag == tar.TypeDir {
		return nil
	}
	if !fs.ValidPath(at) || at == "." || strings.Contains(h.Name, "\x00") {
		return wrong(errors.New("want a path below the folder"))
	}
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return wrong(err)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(at, 0o755); err != nil {
			return wrong(err)
		}
	case tar.TypeSymlink:
		if err := root.Symlink(h.Linkname, at); err != nil {
			return wrong(err)
		}
	case tar.TypeReg:
		mode := fs.FileMode(0o644)
		if h.Mode&0o111 != 0 {
			mode = 0o755
		}
		f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return wrong(err)
		}
		_, err = io.Copy(f, content)
		if closed := f.Close(); err == nil && closed != nil {
			return closed
		}
		if err != nil {
			return unpacking(err)
		}
	case tar.TypeXGlobalHeader:
	default:
		return wrong(errors.New("want files, folders and symbolic links, and nothing else"))
	}
	return nil
}
