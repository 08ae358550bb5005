package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// commandsPage lists every command and flag, from the commands' own help.
const commandsPage = "../../deploy/COMMANDS.md"

var writePage = flag.Bool("write", false, "write "+commandsPage)

// TestCommandsPageIsCurrent fails for a command, a flag, a default or a text that differs from
// the page.
func TestCommandsPageIsCurrent(t *testing.T) {
	page := renderCommands(Root())
	if *writePage {
		require.NoError(t, os.WriteFile(commandsPage, []byte(page), 0o644))
	}
	current, err := os.ReadFile(commandsPage)
	require.NoError(t, err)
	require.Equal(t, string(current), page, "make it again: go test ./cmd/cli -run '^TestCommandsPageIsCurrent$' -write")
}

func TestCommandsPageNamesEveryFlag(t *testing.T) {
	root := &cobra.Command{Use: "holdfast"}
	planted := &cobra.Command{Use: "planted", Short: "Be there", Run: func(*cobra.Command, []string) {}}
	planted.Flags().Duration("new-flag", 0, "a flag that\nno page names")
	root.AddCommand(planted)
	require.NotContains(t, renderCommands(Root()), "new-flag")
	require.Contains(t, renderCommands(root), "| `--new-flag` duration | `0s` | a flag that no page names |")
}

const pageHead = `# Commands and flags

Each flag that is not on the command line is read from the environment, with the prefix ` + "`HOLDFAST_`" + `, in capitals and with
underscores: ` + "`--data-dir` is `HOLDFAST_DATA_DIR`" + `. Commands with ` + "`--config`" + ` read what is left from a YAML file whose keys are
the flags' names. The command line wins over the environment, and that over the file. What sorts,
selects and watches a list is for the command line only. Lists are separated by commas in the
environment. Exit codes: 0 done, 1 the answer is no, 2 usage, 3 unavailable.

This page is made from what ` + "`--help`" + ` says.
`

// renderCommands is the page. The flags that choose a cluster are the same for all commands that
// ask one, and are listed once.
func renderCommands(root *cobra.Command) string {
	var page strings.Builder
	page.WriteString(pageHead)
	page.WriteString("\n## Flags of the commands that ask a cluster\n\n")
	page.WriteString(renderFlags(statusCommand(), isConnectionFlag))
	for _, cmd := range allCommands(root)[1:] {
		page.WriteString(renderCommand(cmd))
	}
	return page.String()
}

func renderCommand(cmd *cobra.Command) string {
	text := fmt.Sprintf("\n## %s\n\n%s.", strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.Short)
	asksCluster := cmd.LocalFlags().Lookup("endpoints") != nil
	if asksCluster {
		text += " It asks a cluster."
	}
	if cmd.Hidden {
		text += " The system calls it, not a person."
	}
	if flags := renderFlags(cmd, func(f *pflag.Flag) bool { return !asksCluster || !isConnectionFlag(f) }); flags != "" {
		text += "\n\n" + flags
		return text
	}
	return text + "\n"
}

// allCommands are a command and all below it.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

// isConnectionFlag tells a flag that status has as well, with the same default.
func isConnectionFlag(f *pflag.Flag) bool {
	same := statusCommand().PersistentFlags().Lookup(f.Name)
	return same != nil && same.DefValue == f.DefValue && same.Usage == f.Usage
}

// renderFlags is a table of some of a command's flags, empty when there are none.
func renderFlags(cmd *cobra.Command, wanted func(*pflag.Flag) bool) string {
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !wanted(f) {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		byDefault := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			byDefault = "`" + strings.Trim(f.DefValue, "[]") + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", strings.TrimSpace("`--"+f.Name+"` "+kind), byDefault, strings.NewReplacer("\n", " ", "|", `\|`).Replace(usage))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "| flag | default | what |\n|---|---|---|\n" + rows.String()
}
