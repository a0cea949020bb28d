//! The one style of all pages and charts: colours as custom properties with values for light, dark
//! and print, and the classes that drawings use.

/// The style sheet of a page. A drawing that stands alone carries it too.
pub(crate) const STYLE: &str = "\
:root{--ink:#1c2430;--soft:#566173;--paper:#fff;--card:#fff;--line:#e3e8ef;--rule:#8a94a6;\
--tint:#eef4fb;--near:#e3f3ea;--mid:#fff3d6;--far:#fbdfd9;--yes:#00734f;--no:#b03a1a;\
--blue:#0072b2;--red:#d55e00;--green:#009e73;--pink:#b8568c;--yellow:#d99400;--sky:#56b4e9;\
--grey:#77818f;\
--p0:#882255;--p1:#332288;--p2:#88ccee;--p3:#44aa99;--p4:#117733;--p5:#999933;--p6:#ddcc77;\
--p7:#cc6677;--p8:#aa4499;--p9:#8d8d8d}\
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8ecf2;--soft:#a5b0c0;--paper:#10151c;\
--card:#151b24;--line:#2c3644;--rule:#6b778a;--tint:#182433;--near:#143a2b;--mid:#43360f;\
--far:#4a211a;--yes:#4fd3a5;--no:#ff9473;\
--blue:#429fe3;--red:#f0803c;--green:#2fc79a;--pink:#e08fbd;--yellow:#f2bd45;--sky:#a8ddff;\
--grey:#98a3b5;\
--p0:#c9588f;--p1:#8a80e0;--p2:#88ccee;--p3:#44aa99;--p4:#3fae62;--p5:#b5b545;--p6:#ddcc77;\
--p7:#dd7f8e;--p8:#c46ab4;--p9:#a3a3a3}}\
text{font-family:system-ui,sans-serif;fill:var(--ink)}.title{font-size:14px;font-weight:600}\
.tick,.name{font-size:12px}.value{font-size:12px;font-weight:600}.soft{fill:var(--soft)}\
.back{fill:var(--paper)}.grid{stroke:var(--line)}.axis{stroke:var(--rule)}\
.mark{stroke:var(--soft);stroke-dasharray:6 4}.reach{stroke:var(--ink);stroke-width:1.4;fill:none}\
.curve{fill:none;stroke-linejoin:round}.hollow{fill:var(--card)}\
.clean{fill:var(--line);fill-opacity:.55}.open{fill:none;stroke:var(--ink);stroke-width:1.6}\
.f-blue{fill:var(--blue)}.f-red{fill:var(--red)}.f-green{fill:var(--green)}.f-pink{fill:var(--pink)}\
.f-yellow{fill:var(--yellow)}.f-sky{fill:var(--sky)}.f-grey{fill:var(--grey)}\
.s-blue{stroke:var(--blue)}.s-red{stroke:var(--red)}.s-green{stroke:var(--green)}\
.s-pink{stroke:var(--pink)}.s-yellow{stroke:var(--yellow)}.s-sky{stroke:var(--sky)}\
.s-grey{stroke:var(--grey)}\
.f-p0{fill:var(--p0)}.f-p1{fill:var(--p1)}.f-p2{fill:var(--p2)}.f-p3{fill:var(--p3)}\
.f-p4{fill:var(--p4)}.f-p5{fill:var(--p5)}.f-p6{fill:var(--p6)}.f-p7{fill:var(--p7)}\
.f-p8{fill:var(--p8)}.f-p9{fill:var(--p9)}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0}\
main{max-width:1360px;margin:0 auto;padding:20px 16px}\
h1{font-size:28px;line-height:1.2;margin:0 0 6px;overflow-wrap:anywhere}\
h2{font-size:21px;margin:36px 0 8px;border-top:2px solid var(--ink);padding-top:12px}\
ul.names{list-style:none;margin:8px 0;padding:0}h3{font-size:16px;margin:20px 0 8px;overflow-wrap:anywhere}p{max-width:76ch;margin:6px 0 12px}\
code{font-size:14px;overflow-wrap:anywhere}\
.verdict{background:var(--tint);border-left:5px solid var(--blue);border-radius:4px;\
padding:12px 16px;margin:12px 0;max-width:none;font-size:18px;overflow-wrap:anywhere}\
.verdict p{max-width:none;margin:0 0 6px}.verdict small{display:block;font-size:14px}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:14px;\
align-items:start}\
.wide{grid-column:1/-1}.narrow{display:none}main .wide svg{max-width:none}\
@media screen and (max-width:700px){.wide{display:none}.narrow{display:block}}\
details{margin:14px 0}summary{cursor:pointer;font-weight:600;padding:6px 0}\
main svg{display:block;width:100%;max-width:660px;height:auto;background:var(--card);\
border:1px solid var(--line);border-radius:6px;box-sizing:border-box}\
main svg.swatch{display:inline-block;width:26px;height:12px;border:0;background:none;\
vertical-align:baseline;margin-right:6px}\
table{border-collapse:collapse;font-size:14px;margin:8px 0;display:block;width:fit-content;\
max-width:100%;overflow-x:auto}\
th,td{padding:3px 9px;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);\
white-space:nowrap}td.lines{white-space:pre}\
tr:first-child th{border-bottom:2px solid var(--rule);white-space:normal;\
overflow-wrap:break-word}\
th{font-weight:600}tr.group th{border-bottom:0;text-align:center}\
tr.group+tr th{border-bottom:2px solid var(--rule)}\
td.l,th.l{text-align:left;white-space:normal}td.id{white-space:nowrap}\
.part{width:180px;background:var(--far)}.part i{display:block;height:14px;background:var(--yes)}\
main svg.band{width:120px;height:16px;border:0;background:none;display:inline-block}\
.tolerance{fill:var(--line)}.in{fill:var(--yes)}.off{fill:var(--no)}\
.near{background:var(--near)}.mid{background:var(--mid)}.far{background:var(--far)}\
.out{color:var(--grey)}.yes{color:var(--yes);font-weight:600}.no{color:var(--no);font-weight:600}\
small{color:var(--soft)}\
@media screen and (max-width:600px){table{font-size:12px}th,td{padding:3px 5px}}\
@media print{body{font-size:11pt;-webkit-print-color-adjust:exact;print-color-adjust:exact}\
main{padding:0}.charts{grid-template-columns:1fr 1fr}\
main svg,.verdict,tr{break-inside:avoid}h2,h3{break-after:avoid}\
table{font-size:8.5pt;display:table}\
th,td{padding:2px 4px;white-space:normal}}";
