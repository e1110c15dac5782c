package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/files"
	"millrace/task"
)

// pushFilesOf pushes the folders that job files name, and puts their versions in the place of them. A
// folder is meant from where the file lies.
func (a *app) pushFilesOf(c *cobra.Command, cl *client.Client, read []jobsOfFile) error {
	for _, f := range read {
		for i := range f.jobs {
			j := &f.jobs[i]
			if j.Files == nil || !files.IsFolder(j.Files.Bundle) {
				continue
			}
			dir := j.Files.Bundle
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(filepath.Dir(f.name), dir)
			}
			p, err := a.push(c, cl, client.FilesPush{Dir: dir, Name: bundleOf(j.Name)})
			if err != nil {
				return fmt.Errorf("job %s: files: %w", j.Name, err)
			}
			pinned := *j.Files
			pinned.Bundle = files.Ref{Name: p.Name, Digest: p.Digest}.String()
			j.Files = &pinned
		}
	}
	return nil
}

// bundleOf is the name of the bundle that a job's folder becomes: the job's own, unless that looks
// like a digest.
func bundleOf(job string) string {
	if files.ValidBundleName(job) == nil {
		return job
	}
	return ""
}

// filesFor are the files that `run --files` names; a folder is pushed.
func (a *app) filesFor(c *cobra.Command, cl *client.Client, named string) (*task.Files, error) {
	if !files.IsFolder(named) {
		return &task.Files{Bundle: named}, nil
	}
	p, err := a.push(c, cl, client.FilesPush{Dir: named})
	if err != nil {
		return nil, err
	}
	return &task.Files{Bundle: string(p.Digest)}, nil
}
