// A page that was opened from a file may start no worker. Its search then runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const load = address =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script")
          Object.assign(script, { src: address, onload: resolve, onerror: reject })
          inside.document.body.append(script)
        })
      // One after another: the second may need what the first defines.
      inside.importScripts = (...urls) => urls.reduce((done, next) => done.then(() => load(next)), Promise.resolve())
      this.ready = load(new URL(url, location).href)
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
