package pagetest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/cli"
)

// checkHoldfast parses a call of the program as it would itself, and runs nothing.
func checkHoldfast(_ Block, w Words) error {
	_, err := parse(cli.Root(), w[1:])
	return err
}

// parse finds the command below a root, and has it take its flags and arguments. It returns the command and what is left of the
// arguments.
func parse(root *cobra.Command, args []string) (*cobra.Command, error) {
	found, rest, err := root.Find(args)
	if err != nil {
		return nil, err
	}
	if found == root {
		return nil, fmt.Errorf("%v names no command of %s", args, root.Name())
	}
	found.InitDefaultHelpFlag()
	if err := found.ParseFlags(rest); err != nil {
		return nil, err
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		return nil, err
	}
	if found.HasSubCommands() && !found.Runnable() {
		return nil, fmt.Errorf("%s is no command by itself", found.CommandPath())
	}
	return found, nil
}

// synopsis is a line that says by "|" and "..." what there is to choose and to add.
var synopsis = regexp.MustCompile(`^(holdfast [^#]*?(\w\|\w|\.\.\.)[^#]*)(#.*)?$`)

// abbreviated tells a synopsis.
func abbreviated(line string) (string, bool) {
	match := synopsis.FindStringSubmatch(strings.TrimSpace(line))
	if match == nil {
		return "", false
	}
	return match[1], true
}

// checkAbbreviated looks for each command and each flag that a synopsis names; arguments begin with a capital.
func checkAbbreviated(line string) error {
	paths := [][]string{nil}
	for _, word := range strings.Fields(line)[1:] {
		if strings.HasPrefix(word, "-") || word == "..." || word != strings.ToLower(word) {
			break
		}
		var longer [][]string
		for _, path := range paths {
			for choice := range strings.SplitSeq(word, "|") {
				longer = append(longer, append(path[:len(path):len(path)], choice))
			}
		}
		paths = longer
	}
	for _, path := range paths {
		if err := checkNamed(path, line); err != nil {
			return err
		}
	}
	return nil
}

func checkNamed(path []string, line string) error {
	found, _, err := cli.Root().Find(path)
	if err != nil {
		return err
	}
	if len(path) == 0 || found.Name() != path[len(path)-1] {
		return fmt.Errorf("there is no command holdfast %s", strings.Join(path, " "))
	}
	for word := range strings.FieldsSeq(line) {
		if name, ok := strings.CutPrefix(word, "--"); ok && found.Flag(name) == nil {
			return fmt.Errorf("holdfast %s has no flag --%s", strings.Join(path, " "), name)
		}
	}
	return nil
}
