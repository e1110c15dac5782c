//go:build linux

package promises

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// fakeRuntime is a client of containers without containers: as those do, a process outlives it, has
// only the variables that it is given, and ends with "rm". The folder of its images and processes is
// where its program lies.
func fakeRuntime(args []string) int {
	home, err := exec.LookPath("podman")
	if err == nil {
		err = fakeCommand(filepath.Dir(home), args)
	}
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if status := ended.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + int(status.Signal())
		}
		return ended.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 125
	}
	return 0
}

func fakeCommand(home string, args []string) error {
	last := args[len(args)-1]
	switch args[0] {
	case "ps":
		files, err := filepath.Glob(filepath.Join(home, "millrace.*"))
		for _, f := range files {
			fmt.Println(filepath.Base(f))
		}
		return err
	case "image":
		_, err := os.Stat(filepath.Join(home, "images", last))
		return err
	case "pull": // from a registry that never answers
		registry, _, _ := strings.Cut(last, "/")
		conn, err := net.Dial("tcp", registry)
		if err == nil {
			_, err = io.ReadAll(conn)
		}
		return errors.Join(err, errors.New("no such registry"))
	case "rm":
		text, err := os.ReadFile(filepath.Join(home, last))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		pid, wrong := strconv.Atoi(string(text))
		if err := errors.Join(err, wrong); err != nil {
			return err
		}
		fmt.Println(last)
		return errors.Join(ignoring(syscall.Kill(-pid, syscall.SIGKILL), syscall.ESRCH), os.Remove(filepath.Join(home, last)))
	case "run":
		return fakeRun(home, args[1:])
	}
	return fmt.Errorf("no command %q", args[0])
}

func ignoring(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}

func fakeRun(home string, args []string) error {
	var name string
	cmd := &exec.Cmd{Env: []string{"PATH=/image/bin", "HOME=/image"}, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		flag, value, own := strings.Cut(args[0], "=")
		args = args[1:]
		if !own && !slices.Contains([]string{"--rm", "--interactive"}, flag) {
			value, args = args[0], args[1:]
		}
		switch flag {
		case "--name":
			name = value
		case "--workdir":
			cmd.Dir = value
		case "--env":
			if _, assigned := os.LookupEnv(value); assigned {
				value += "=" + os.Getenv(value)
			}
			cmd.Env = append(cmd.Env, value)
		case "--interactive":
			cmd.Stdin = os.Stdin
		}
	}
	cmd.Path = filepath.Join(home, "images", args[0])
	if cmd.Args = append([]string{cmd.Path}, args[1:]...); cmd.Dir == "" {
		cmd.Dir = home
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCONT)
	if err := cmd.Start(); err != nil {
		return err
	}
	file := filepath.Join(home, name)
	if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	return errors.Join(err, ignoring(os.Remove(file), os.ErrNotExist))
}
