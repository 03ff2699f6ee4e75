// The search runs in a web worker, which a page opened from a disk may not start. There, a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.onload = () => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => {
          this.deliver = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
          this.waiting.forEach(this.deliver);
        };
        inside.document.body.append(script);
      };
      this.frame.srcdoc = "<!doctype html><body></body>";
      document.body.append(this.frame);
    }
    postMessage(data) {
      if (this.deliver) this.deliver(data);
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
