package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Writable checks beforehand that a page can be written, if one is requested: measuring takes minutes.
func Writable(page string) error {
	if page == "" {
		return nil
	}
	if at, err := os.Stat(page); err == nil && at.IsDir() {
		return fmt.Errorf("--report: %s is a directory", page)
	}
	if _, err := os.Stat(filepath.Dir(page)); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// WritePage writes the page of [WriteReport] to a file, if one is requested.
func WritePage(name string, r *Result, findings []Finding, faults []Fault) error {
	if name == "" {
		return nil
	}
	var page bytes.Buffer
	if err := WriteReport(&page, r, findings, faults); err != nil {
		return err
	}
	return os.WriteFile(name, page.Bytes(), 0o600)
}
