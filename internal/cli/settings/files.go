package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
)

// MaxFile is more than [jobfile.Parse] accepts; larger files are not read to their end.
const MaxFile = 2 << 20

// FileOf is the content of one file, or its error.
type FileOf[D any] struct {
	Name string
	All  []D
	Err  error
}

// ParseFiles reads files, folders of files, and stdin ("-").
func ParseFiles[D any](in io.Reader, c *cobra.Command, paths []string, parse func(name string, data []byte) ([]D, error)) ([]FileOf[D], error) {
	if len(paths) == 0 {
		return nil, term.Misuse(c, "no file is named; - stands for stdin")
	}
	var read []FileOf[D]
	add := func(name string, data []byte) {
		all, err := parse(name, data)
		read = append(read, FileOf[D]{name, all, err})
	}
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(io.LimitReader(in, MaxFile))
			if err != nil {
				return nil, fmt.Errorf("stdin: %w", err)
			}
			add("stdin", data)
			continue
		}
		files, err := jobFiles(path)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			data, err := ReadFile(name)
			if err != nil {
				return nil, err
			}
			add(name, data)
		}
	}
	return read, nil
}

// ReadFile reads one of them.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, FileFault(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil, FileFault(err)
	}
	return data, nil
}

// fileFault gives the error of a missing file its exit code.
func FileFault(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return &term.Fault{Code: term.ExitNotFound, Err: err}
	}
	return err
}

// jobFiles returns path itself, or the job files in the folder at path.
func jobFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, FileFault(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s: no .yaml, .yml or .json file in this folder", path)}
	}
	return files, nil
}

// ReadFiles is ParseFiles, and returns an error if any file is wrong or two of them define the
// same.
func ReadFiles[D any](in io.Reader, c *cobra.Command, paths []string, parse func(name string, data []byte) ([]D, error), what, next string, called func(*D) string) ([]FileOf[D], error) {
	read, err := ParseFiles(in, c, paths, parse)
	if err != nil {
		return nil, err
	}
	var errs []error
	from := map[string]string{}
	for _, f := range read {
		errs = append(errs, f.Err)
		for i := range f.All {
			name := called(&f.All[i])
			if first, twice := from[name]; twice {
				errs = append(errs, fmt.Errorf("%s %q is defined by %s and by %s", what, name, first, f.Name))
			}
			from[name] = f.Name
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("nothing was stored\n%w", err), Hint: next}
	}
	return read, nil
}
