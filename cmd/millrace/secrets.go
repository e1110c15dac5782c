package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"millrace/jet"
)

// Every user of a machine can read the arguments of every process, and shells remember them. So
// no secret is taken from an argument: it stands in a file, or in the environment.

// whoYouAre is what to do when a server does not know who asks.
const whoYouAre = "say who you are with --creds, --nkey, --token-file, --user and --password-file, or --context"

// readSecrets reads the files that hold a password or a token, and refuses a secret that stands in an argument.
func (c *connection) readSecrets() error {
	refuse := func(what, instead string) error {
		return &fault{code: exitUsage, err: fmt.Errorf("%s, where every user of this machine can read it", what), hint: hint("%s", instead)}
	}
	if c.set.Changed("password") {
		return refuse("--password puts the password into the list of processes", "write it into a file and pass --password-file FILE, or set $NATS_PASSWORD")
	}
	if c.set.Changed("server") && jet.Nameless(c.server) != c.server {
		return refuse("--server names a user or a token beside the address", "take that out and pass --user with --password-file, or --token-file; or set $NATS_URL")
	}
	if err := checkURLs(c.server); err != nil {
		return err
	}
	named := c.set.Changed
	switch someone := named("user") || named("password-file"); {
	case named("token-file") && someone:
		return misuseOf(errors.New("--token-file does not go together with --user or --password-file"))
	case someone:
		c.tokenFile = "" // a flag wins over the environment
	case c.tokenFile != "" && c.user != "" && !named("token-file"):
		return misuseOf(errors.New("$NATS_TOKEN_FILE does not go together with $NATS_USER"))
	}
	var err error
	if c.tokenFile != "" {
		c.password = ""
		c.user, err = readSecret(c.tokenFile)
		return err
	}
	if c.passwordFile != "" && (c.password == "" || named("password-file")) {
		if c.password, err = readSecret(c.passwordFile); err != nil {
			return err
		}
	}
	if named("user") && c.password == "" {
		return refuse("--user without a password names a token", "write the token into a file and pass --token-file FILE, or set $NATS_USER; the password of a user comes from --password-file FILE or $NATS_PASSWORD")
	}
	return nil
}

func readSecret(path string) (string, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return "", misuseOf(fmt.Errorf("secret: %w", err))
	}
	secret := strings.TrimSpace(string(body))
	if secret == "" {
		return "", misuseOf(fmt.Errorf("secret: %s is empty", path))
	}
	return secret, nil
}

// checkURLs refuses addresses that cannot be read. The library's own error would repeat them, with what they hold.
func checkURLs(servers string) error {
	for server := range strings.SplitSeq(servers, ",") {
		if jet.Nameless(server) == server {
			continue
		}
		if _, err := url.Parse(strings.TrimSpace(server)); err != nil {
			return misuseOf(fmt.Errorf("the address of the server, %s with a user or a token before it, cannot be read: want nats://USER:PASSWORD@HOST:PORT, with %%-escapes", jet.Nameless(server)))
		}
	}
	return nil
}

// forgetEnvironment removes from the environment how NATS is reached, once that was read: no process
// that is started later, by whatever way, is to be told.
func forgetEnvironment() {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "NATS_") {
			_ = os.Unsetenv(name)
		}
	}
}
