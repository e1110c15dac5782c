package job

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/internal/files"
	"millrace/service/client"
	"millrace/task/job"
)

// pushFilesOf pushes the folders that job files name, and replaces them by their versions. A folder
// is relative to its file's.
func (a *Commands) pushFilesOf(c *cobra.Command, cl *client.Client, read []settings.FileOf[job.Job]) error {
	for _, f := range read {
		for i := range f.All {
			j := &f.All[i]
			pushed := map[string]files.Ref{} // a folder that two steps share is one bundle
			pin := func(name string, of *job.Files) (*job.Files, error) {
				if of == nil || !files.IsFolder(of.Bundle) {
					return of, nil
				}
				dir := of.Bundle
				if !filepath.IsAbs(dir) {
					dir = filepath.Join(filepath.Dir(f.Name), dir)
				}
				if _, done := pushed[dir]; !done {
					p, err := a.PushFiles(c, cl, client.FilesPush{Dir: dir, Name: bundleOf(name)})
					if err != nil {
						return nil, fmt.Errorf("files: %w", err)
					}
					pushed[dir] = files.Ref{Name: p.Name, Digest: p.Digest}
				}
				pinned := *of
				pinned.Bundle = pushed[dir].String()
				return &pinned, nil
			}
			var err error
			if j.Files, err = pin(j.Name, j.Files); err != nil {
				return fmt.Errorf("job %s: %w", j.Name, err)
			}
			err = j.ChangeSteps(func(name string, step *job.Step) (err error) {
				if step.Files, err = pin(j.Name+"-"+name, step.Files); err != nil {
					err = fmt.Errorf("step %s: %w", name, err)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("job %s: %w", j.Name, err)
			}
		}
	}
	return nil
}

// bundleOf returns the name of the bundle for a folder of a job or step: the job's or step's own
// name, unless that looks like a digest or is too long.
func bundleOf(name string) string {
	if files.ValidBundleName(name) == nil {
		return name
	}
	return ""
}
