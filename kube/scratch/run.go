package scratch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Write makes the claim and the writer of the run's nth host, and returns when the writer runs. The volume is that of the claim's
// PersistentVolume, by name.
func (p *Pods) Write(ctx context.Context, run certify.Run, n int, host string) (claim, volume string, err error) {
	made, err := p.API.CoreV1().PersistentVolumeClaims(p.Namespace).Create(context.WithoutCancel(ctx), p.claim(run, n), metav1.CreateOptions{})
	if err != nil {
		return "", "", fmt.Errorf("create a claim: %w", err)
	}
	if _, err := p.start(ctx, p.writer(run, n, host), corev1.PodRunning); err != nil {
		return "", "", err
	}
	made, err = p.API.CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, made.Name, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("look at the claim: %w", err)
	}
	return p.Namespace + "/" + made.Name, made.Spec.VolumeName, nil
}

// Acknowledged is what the writer said last. The error is of a writer that writes no more, or has not said anything yet.
func (p *Pods) Acknowledged(ctx context.Context, run certify.Run, n int) (said certify.Acknowledged, err error) {
	name := writerName(run, n)
	pod, err := p.API.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return said, fmt.Errorf("look at the writer: %w", err)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return said, fmt.Errorf("pod %s does not write any more: %s", name, reason(pod))
	}
	return said, p.lastLine(ctx, name, &said)
}

// Stop ends the writer, and returns when its pod is gone.
func (p *Pods) Stop(ctx context.Context, run certify.Run, n int) error {
	pod, err := p.API.CoreV1().Pods(p.Namespace).Get(ctx, writerName(run, n), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at the writer: %w", err)
	}
	return p.remove(ctx, []Object{podObject(pod)})
}

// Read has a second pod read the blocks back, on the host or elsewhere, and says where.
func (p *Pods) Read(ctx context.Context, run certify.Run, n int, host string, elsewhere bool, acknowledged uint64) (on string, found certify.ReadBack, err error) {
	pod, err := p.start(ctx, p.reader(run, n, host, elsewhere, acknowledged), corev1.PodSucceeded)
	if err != nil {
		return "", found, err
	}
	return pod.Spec.NodeName, found, p.lastLine(ctx, pod.Name, &found)
}

// lastLine reads the last line of a pod's log.
func (p *Pods) lastLine(ctx context.Context, pod string, into any) error {
	text, err := p.API.CoreV1().Pods(p.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: new(int64(1))}).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" {
		return errors.New("pod " + pod + " has not said anything yet")
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		return fmt.Errorf("pod %s says %q: %w", pod, line, err)
	}
	return nil
}
