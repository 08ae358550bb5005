package scratch

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Object is a pod or a claim that a run made, by its UID: another one of its name is another's.
type Object struct {
	Claim           bool // else it is a pod
	Namespace, Name string
	UID             types.UID
}

func (o Object) String() string {
	kind := "pod"
	if o.Claim {
		kind = "claim"
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

func podObject(pod *corev1.Pod) Object {
	return Object{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func claimObject(claim *corev1.PersistentVolumeClaim) Object {
	return Object{Claim: true, Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

// Remove removes whatever the run made, and returns when it is gone.
func (p *Pods) Remove(ctx context.Context, run certify.Run) error {
	all, err := p.list(ctx, p.Namespace)
	if err != nil {
		return err
	}
	var own []Object
	for _, one := range all {
		if p.ownedBy(one.meta) == run {
			own = append(own, one.Object)
		}
	}
	return p.remove(ctx, own)
}

// RemoveLeft removes what Leftovers found of killed runs.
func (p *Pods) RemoveLeft(ctx context.Context) error { return p.remove(ctx, p.left) }

// remove removes objects, pods before the claims that they use, and waits until they are gone.
func (p *Pods) remove(ctx context.Context, all []Object) error {
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	for _, claims := range []bool{false, true} {
		for _, one := range all {
			if one.Claim != claims {
				continue
			}
			if err := p.delete(ctx, one); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // it is another's by now
				return fmt.Errorf("delete %s: %w", one, err)
			}
		}
	}
	for _, one := range all {
		if err := p.awaitGone(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pods) delete(ctx context.Context, o Object) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}}
	if o.Claim {
		return p.API.CoreV1().PersistentVolumeClaims(o.Namespace).Delete(ctx, o.Name, options)
	}
	return p.API.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, options)
}

func (p *Pods) awaitGone(ctx context.Context, o Object) error {
	for {
		var now metav1.Object
		var err error
		if o.Claim {
			now, err = p.API.CoreV1().PersistentVolumeClaims(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		} else {
			now, err = p.API.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) || err == nil && now.GetUID() != o.UID {
			return nil
		}
		if slept := sleep(ctx, p.Pause); errors.Is(slept, context.DeadlineExceeded) {
			return fmt.Errorf("%s was deleted, and is still there after %s", o, p.Patience.Round(time.Second))
		} else if slept != nil {
			return slept
		}
	}
}
