package job

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"millrace/task/value"
)

// Files names a bundle of files for an attempt.
type Files struct {
	// Bundle is NAME, DIGEST or NAME@DIGEST. In a task it names a fixed version: the submitter
	// resolves a name at submission.
	Bundle string `json:"bundle" redact:"keep" read:"line" short:"text"`
	// To is the target directory of the files, below the working directory. Default: the working
	// directory itself.
	To string `json:"to,omitempty" redact:"hide"`
	// Mode is how the files are provided. Default [FilesCopy].
	Mode string `json:"mode,omitempty" redact:"word" words:"copy,link,shared"`
}

// How files get from a node's cache into the working directory of an attempt.
const (
	// FilesCopy gives the attempt files of its own, which it may change. Where the file system
	// can, the copies share their blocks until they are written to.
	FilesCopy = "copy"
	// FilesLink gives it hard links to the files of the cache, which are read-only. A program of
	// the superuser can write to them nevertheless. It then damages the version on this node until
	// the worker notices, before the next attempt begins.
	FilesLink = "link"
	// FilesShared leaves the working directory empty. MILLRACE_FILES names the directory of the
	// cache, which must only be read.
	FilesShared = "shared"
)

// FilesModes lists the values of [Files.Mode].
var FilesModes = value.WordsOf[Files]("mode")

func (f *Files) validate() error {
	switch {
	case f == nil:
		return nil
	case f.Bundle == "":
		return errors.New("files.bundle is empty: name a bundle, or leave files out")
	case strings.ContainsFunc(f.Bundle, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("files.bundle: %q holds a control character", f.Bundle)
	case f.Mode != "" && !slices.Contains(FilesModes, f.Mode):
		return fmt.Errorf("files.mode is %q, want %s, %s or %s", f.Mode, FilesCopy, FilesLink, FilesShared)
	case f.To != "" && (f.To[0] == '/' || f.To[0] == '.' || slices.Contains(strings.Split(f.To, "/"), "..") || strings.ContainsFunc(f.To, func(c rune) bool { return c < ' ' })):
		return fmt.Errorf("files.to is %q, want a directory below the working directory, such as src", f.To)
	case f.To != "" && f.Mode == FilesShared:
		return errors.New("files.to has no meaning with files.mode shared: the files stay where they are")
	}
	return nil
}

// Artifacts selects files to keep from the directory in which an attempt's command ran.
type Artifacts struct {
	// Paths are patterns below that directory: * matches any characters in a name, ** any
	// directories. A pattern that names a directory takes all files below it.
	Paths []string `json:"paths" redact:"hide" alone:"text" short:"text,list"`
	// When says after which ends the files are kept. Default [ArtifactsSuccess].
	When string `json:"when,omitempty" redact:"word" words:"success,failure,always"`
}

// Values of [Artifacts.When]: after which ends artifacts are kept.
const (
	ArtifactsSuccess = "success"
	ArtifactsFailure = "failure"
	ArtifactsAlways  = "always"
)

// ArtifactsWhen lists the values of [Artifacts.When].
var ArtifactsWhen = value.WordsOf[Artifacts]("when")

// Wanted tells whether to keep the artifacts of an attempt, by its success.
func (a *Artifacts) Wanted(success bool) bool {
	switch {
	case a == nil:
		return false
	case a.When == ArtifactsAlways:
		return true
	}
	return success == (a.When != ArtifactsFailure)
}

func (a *Artifacts) validate() error {
	switch {
	case a == nil:
		return nil
	case len(a.Paths) == 0:
		return errors.New("artifacts.paths is empty: name files or patterns, or leave artifacts out")
	case a.When != "" && !slices.Contains(ArtifactsWhen, a.When):
		return fmt.Errorf("artifacts.when is %q, want %s, %s or %s", a.When, ArtifactsSuccess, ArtifactsFailure, ArtifactsAlways)
	}
	for _, p := range a.Paths {
		if p == "" || path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") || strings.ContainsRune(p, 0) {
			return fmt.Errorf("artifacts.paths: %q is not below the working directory", p)
		}
	}
	return nil
}

// validateFiles refuses files, setup and artifacts that an attempt cannot have.
func (s *Spec) validateFiles() error {
	switch {
	case s.Run == nil && (s.Files != nil || len(s.Setup) > 0 || s.Artifacts != nil):
		return errors.New("files, setup and artifacts are for run: a handler has no directory of its own")
	case slices.Contains(s.Setup, ""):
		return errors.New("setup: a line is empty")
	}
	for _, line := range s.Setup {
		if strings.ContainsRune(line, 0) {
			return fmt.Errorf("setup: %q holds a zero byte", line)
		}
		if len(line) >= MaxVariable {
			return fmt.Errorf("setup: a line has %d bytes, and a shell can be given at most %d: put it into a file", len(line), MaxVariable-1)
		}
	}
	if s.Artifacts != nil && s.Run.Program != "" {
		return errors.New("artifacts and run.program are both set: a program that stays alive has one folder for all its tasks")
	}
	if err := s.validateImage(); err != nil {
		return err
	}
	if err := s.Files.validate(); err != nil {
		return err
	}
	return s.Artifacts.validate()
}

// Surrounded tells whether an attempt needs files or setup in its directory.
func (s *Spec) Surrounded() bool { return s.Files != nil || len(s.Setup) > 0 }
