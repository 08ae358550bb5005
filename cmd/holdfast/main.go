// Command holdfast is a storage control plane on a replicated log: its daemons, the developer's cluster
// and the commands for operators in one binary.
package main

import (
	"os"

	"github.com/holdfast-storage/holdfast/cmd/cli"
)

func main() { os.Exit(cli.Main(cli.Args(os.Args), os.Stdout, os.Stderr)) }
