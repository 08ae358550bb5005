package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Log is what is asked of the controllers: all volumes, hosts and operations.
type Log struct {
	Status     *adminpb.StatusResponse
	Volumes    []*adminpb.Volume
	Nodes      []*adminpb.Node
	Operations []*adminpb.Operation
	Trouble    string // why they could not be asked
}

// Collect reads the facts about a pod (kind "pod") or a claim ("pvc"). The error is of an object that is not there, or of an
// API server that does not answer.
func Collect(ctx context.Context, api kubernetes.Interface, log Log, kind, namespace, name string) (Facts, error) {
	c := &collection{Interface: api, log: log, facts: Facts{Trouble: log.Trouble, Status: log.Status, Hosts: map[string]Host{}}}
	names := []string{name}
	if kind == "pod" {
		pod, err := api.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return Facts{}, fmt.Errorf("read pod %s/%s: %w", namespace, name, err)
		}
		c.facts.Pod, names = pod, ClaimsOf(pod)
		if c.facts.Events, err = c.events(ctx, namespace, string(pod.UID)); err != nil {
			return Facts{}, err
		}
		c.wanted = append(c.wanted, pod.Spec.NodeName)
	}
	for _, claim := range names {
		if err := c.claim(ctx, namespace, claim); err != nil {
			return Facts{}, fmt.Errorf("read claim %s/%s: %w", namespace, claim, err)
		}
	}
	return c.facts, c.hosts(ctx)
}

type collection struct {
	kubernetes.Interface
	log    Log
	facts  Facts
	wanted []string // names of nodes
}

// ClaimsOf are the claims that a pod uses, in its order; a generic ephemeral volume's has the pod's name.
func ClaimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

func (c *collection) claim(ctx context.Context, namespace, name string) error {
	claim := Claim{Namespace: namespace, Name: name}
	defer func() { c.facts.Claims = append(c.facts.Claims, claim) }()
	pvc, err := c.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	claim.Object = pvc
	if claim.Events, err = c.events(ctx, namespace, string(pvc.UID)); err != nil {
		return err
	}
	if class := className(pvc); class != "" {
		if claim.Class, err = found(c.StorageV1().StorageClasses().Get(ctx, class, metav1.GetOptions{})); err != nil {
			return err
		}
	}
	if pvc.Spec.VolumeName == "" {
		return nil
	}
	if claim.Volume, err = found(c.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})); err != nil || claim.Volume == nil {
		return err
	}
	return c.volume(ctx, &claim)
}

// found makes nothing of an object that is not there.
func found[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// volume adds who has the claim's volume, and what the log says of it.
func (c *collection) volume(ctx context.Context, claim *Claim) error {
	all, err := c.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list attachments: %w", err)
	}
	for _, attachment := range all.Items {
		if n := attachment.Spec.Source.PersistentVolumeName; n != nil && *n == claim.Volume.Name {
			claim.Attachments = append(claim.Attachments, attachment)
			c.wanted = append(c.wanted, attachment.Spec.NodeName)
		}
	}
	slices.SortFunc(claim.Attachments, func(a, b storagev1.VolumeAttachment) int { return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	c.wanted = append(c.wanted, allowedHosts(claim.Volume)...)
	if source := claim.Volume.Spec.CSI; source != nil && source.Driver == driver {
		c.record(claim, source.VolumeHandle)
	}
	return nil
}

func (c *collection) record(claim *Claim, id string) {
	for _, v := range c.log.Volumes {
		if v.GetId() == id {
			claim.Record = v
			for _, r := range v.GetReplicas() {
				c.wanted = append(c.wanted, r.GetNode())
			}
		}
	}
	for _, op := range c.log.Operations {
		if op.GetVolume() == id {
			claim.Operations = append(claim.Operations, op)
		}
	}
}
