package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"millrace/service/client"
)

// Files is the cost of moving a folder to the server and back.
type Files struct {
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
	// Bytes per second of pushing it, of writing it to a new folder, and of copying it on this
	// machine.
	PushPerSecond float64 `json:"push_bytes_per_second"`
	PullPerSecond float64 `json:"pull_bytes_per_second"`
	CopyPerSecond float64 `json:"copy_bytes_per_second"`
	// AgainSeconds is how long it took to push it again with one byte changed, and AgainSent how
	// many bytes were sent.
	AgainSeconds float64 `json:"again_seconds"`
	AgainSent    int64   `json:"again_sent"`
	// HeapMax is the largest heap of this process meanwhile.
	HeapMax int64 `json:"heap_max"`
	// ServerMax is the largest resident memory of the server after each step.
	ServerMax int64 `json:"server_max"`
}

// fileBytes is the size of each file of the folder, except the last one.
const fileBytes = 16 << 20

// Bundle measures a folder of n incompressible bytes.
func Bundle(ctx context.Context, cfg Config, n int64) (f Files, err error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return f, err
	}
	dir, err := os.MkdirTemp("", "millrace-bench-files-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	from := filepath.Join(dir, "from")
	b.cfg.Progress("making files")
	if f.Files, err = fill(from, n); err != nil {
		return f, err
	}
	f.Bytes = n
	timed := func(what string, do func() error) (float64, error) {
		b.cfg.Progress(what)
		began := time.Now()
		err := do()
		took := time.Since(began).Seconds()
		if err == nil && b.cfg.ServerMemory != nil {
			var m int64
			m, err = b.cfg.ServerMemory()
			f.ServerMax = max(f.ServerMax, m)
		}
		return took, err
	}
	watch := func(int64, int64) { f.HeapMax = max(f.HeapMax, heap()) }
	took, err := timed("copying them", func() error { return os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(from)) })
	if err != nil {
		return f, err
	}
	f.CopyPerSecond = float64(n) / took
	if err := os.RemoveAll(filepath.Join(dir, "copy")); err != nil {
		return f, err
	}
	if took, err = timed("pushing them", func() error {
		_, err := b.client.PushFiles(ctx, client.FilesPush{Dir: from, Name: "bench", Each: watch})
		return err
	}); err != nil {
		return f, err
	}
	f.PushPerSecond = float64(n) / took
	if err := change(filepath.Join(from, "0")); err != nil {
		return f, err
	}
	if f.AgainSeconds, err = timed("pushing them again", func() error {
		p, err := b.client.PushFiles(ctx, client.FilesPush{Dir: from, Name: "bench", Each: watch})
		f.AgainSent = p.Sent
		return err
	}); err != nil {
		return f, err
	}
	if took, err = timed("pulling them", func() error {
		_, v, err := b.client.FilesVersion(ctx, "bench")
		if err != nil {
			return err
		}
		m, err := b.client.FilesManifest(ctx, v)
		if err != nil {
			return err
		}
		_, err = b.client.PullFiles(ctx, m, filepath.Join(dir, "to"), watch)
		return err
	}); err != nil {
		return f, err
	}
	f.PullPerSecond = float64(n) / took
	return f, nil
}

// fill makes a folder with n bytes in files, and returns how many files.
func fill(dir string, n int64) (files int, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	noise := rand.NewChaCha8([32]byte{1})
	for ; n > 0; files++ {
		name := filepath.Join(dir, fmt.Sprint(files))
		out, err := os.Create(name)
		if err != nil {
			return files, err
		}
		size := min(n, fileBytes)
		_, err = io.CopyN(out, noise, size)
		if err = errors.Join(err, out.Close()); err != nil {
			return files, err
		}
		n -= size
	}
	return files, nil
}

// change changes the first byte of a file.
func change(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var first [1]byte
	_, err = f.ReadAt(first[:], 0)
	if err == nil {
		first[0] ^= 1
		_, err = f.WriteAt(first[:], 0)
	}
	return errors.Join(err, f.Close())
}
