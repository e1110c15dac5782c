// Package stage is the full screen for stepping through a log. It has three parts: a [Model], which
// keys and results of commands change; [View], which draws it; and [Run], which carries keys,
// commands and pictures between a terminal and a session. All content comes from the session: the
// screen holds no rules.
package stage
