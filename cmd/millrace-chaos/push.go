package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"millrace/integration/chaos"
	"millrace/internal/cli/settings"
	"millrace/internal/files"
	"millrace/service/client"
)

// pushPause is the pause between two pushes of `millrace chaos`.
const pushPause = 200 * time.Millisecond

// pushCommand pushes the folders of `millrace chaos`. It is a process of its own, so that it
// can be killed.
func (a *app) pushCommand() *cobra.Command {
	c := &cobra.Command{Use: chaos.PushCommand + " DIR", Hidden: true, Args: settings.Takes(1, 1, "directory")}
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		log := a.ProcessLogger()
		for {
			folders, err := filepath.Glob(filepath.Join(args[0], "v*[0-9]"))
			if err != nil {
				return err
			}
			for _, folder := range folders {
				once, cancel := context.WithTimeout(ctx, time.Minute)
				pushed, err := cl.PushFiles(once, client.FilesPush{Dir: folder, Name: "app"})
				cancel()
				if err == nil {
					err = leave(chaos.PushedFile(folder), string(pushed.Digest))
				}
				log.Info("push", "error", fmt.Sprint(err), "folder", folder, "sent", pushed.Sent)
				if pause(ctx, pushPause); ctx.Err() != nil {
					return nil
				}
			}
		}
	})
	return c
}

// leave writes a digest to a file completely or not at all. A folder has only one; another digest
// goes to a file beside it, for the judge.
func leave(name, digest string) error {
	if before, err := os.ReadFile(name); err == nil && string(before) != digest {
		name += chaos.OtherDigest
	}
	return files.Write(name, []byte(digest))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
