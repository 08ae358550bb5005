package pagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/exec"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/logs"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/cmd/scale"
	"k8s.io/kubectl/pkg/cmd/taint"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/wait"
)

// kubectl are the commands of kubectl that pages use. They are only parsed: no kubeconfig is read.
func kubectl() *cobra.Command {
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard}
	config := genericclioptions.NewConfigFlags(true)
	f := cmdutil.NewFactory(config)
	root := &cobra.Command{Use: "kubectl"}
	config.AddFlags(root.PersistentFlags())
	root.AddCommand(
		apply.NewCmdApply("kubectl", f, streams), create.NewCmdCreate(f, streams), delete.NewCmdDelete(f, streams), describe.NewCmdDescribe("kubectl", f, streams),
		drain.NewCmdDrain(f, streams), drain.NewCmdUncordon(f, streams), events.NewCmdEvents(config, streams), exec.NewCmdExec(f, streams),
		get.NewCmdGet("kubectl", f, streams), label.NewCmdLabel(f, streams), logs.NewCmdLogs(f, streams), patch.NewCmdPatch(f, streams),
		rollout.NewCmdRollout("kubectl", f, streams), scale.NewCmdScale(f, streams), taint.NewCmdTaint(f, streams), wait.NewCmdWait(config, streams),
	)
	return root
}

// checkKubectl parses a call of kubectl, and looks for what it names: kinds, the chart's objects and their containers, fields.
func checkKubectl(b Block, w Words) error {
	if len(w) > 1 && w[1] == "holdfast" {
		return checkHoldfast(b, w[1:])
	}
	own, inside := w, Words(nil)
	if at := slices.Index(w, "--"); at >= 0 {
		own, inside = w[:at], w[at+1:]
	}
	if len(inside) > 0 {
		own = append(own[:len(own):len(own)], "--", "true")
	}
	cmd, err := parse(kubectl(), own[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	if err := checkObjects(cmd); err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	if len(inside) == 0 {
		return nil
	}
	if path.Base(inside[0]) != "holdfast" {
		return fmt.Errorf("%s: the test does not know what runs in the container", w)
	}
	return checkHoldfast(b, inside)
}

// named is an object that a call names; without a name, a kind.
type named struct{ kind, name string }

// takesObjects are the commands whose arguments are TYPE NAME..., or TYPE/NAME...
var takesObjects = []string{"get", "describe", "delete", "label", "patch", "scale", "status", "wait", "taint"}

func checkObjects(cmd *cobra.Command) error {
	var all []named
	var err error
	switch {
	case slices.Contains(takesObjects, cmd.Name()):
		all, err = objectArgs(cmd.Flags().Args())
	case cmd.Name() == "logs":
		all, err = objectArgs([]string{orPod(cmd.Flags().Arg(0))})
	}
	if err != nil {
		return err
	}
	for _, object := range all {
		if err := checkObject(cmd, object); err != nil {
			return err
		}
	}
	return checkSelector(cmd)
}

func orPod(arg string) string {
	if strings.Contains(arg, "/") {
		return arg
	}
	return "pod/" + arg
}

func objectArgs(args []string) (all []named, err error) {
	if len(args) == 0 {
		return nil, nil
	}
	if strings.Contains(args[0], "/") {
		for _, arg := range args {
			resource, name, _ := strings.Cut(arg, "/")
			kind, err := kindOf(resource)
			if err != nil {
				return nil, err
			}
			all = append(all, named{kind, name})
		}
		return all, nil
	}
	kind, err := kindOf(args[0])
	if err != nil || len(args) == 1 {
		return []named{{kind: kind}}, err
	}
	for _, name := range args[1:] {
		if !strings.ContainsAny(name, "=") && !strings.HasSuffix(name, "-") { // else a label or a taint
			all = append(all, named{kind, name})
		}
	}
	return all, nil
}

// checkObject looks for one that is Holdfast's by its name, and at the fields that the call asks for.
func checkObject(cmd *cobra.Command, object named) error {
	if strings.Contains(object.name, "holdfast") {
		if err := isOurs(object, cmd); err != nil {
			return err
		}
	}
	if err := checkFields(cmd, object.kind); err != nil {
		return err
	}
	text, _ := cmd.Flags().GetString("patch")
	if cmd.Name() != "patch" {
		return nil
	}
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	return strict.Decode(newOf(object.kind))
}

// checkFields looks for the fields of -o jsonpath= and custom-columns= in the kind's type.
func checkFields(cmd *cobra.Command, kind string) error {
	output, _ := cmd.Flags().GetString("output")
	form, text, found := strings.Cut(output, "=")
	switch {
	case !found:
		return nil
	case form == "jsonpath":
		if err := jsonpath.New(kind).Parse(text); err != nil {
			return err
		}
		return hasField(kind, strings.Trim(text, "{}"))
	case form != "custom-columns":
		return fmt.Errorf("-o %s: the test does not know this form", form)
	}
	for column := range strings.SplitSeq(text, ",") {
		_, path, _ := strings.Cut(column, ":")
		if err := hasField(kind, path); err != nil {
			return err
		}
	}
	return nil
}
